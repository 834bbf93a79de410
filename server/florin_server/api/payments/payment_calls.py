"""The calls on both sides of a payment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from florin.v1 import payment_pb2

from florin_server.api.context import ApiContext
from florin_server.api.payments.codec import PaymentCodec
from florin_server.api.server.call import current_call, get_caller
from florin_server.api.server.replay import build_response, make_response_encoder
from florin_server.money.payments.service.cancel import cancel
from florin_server.money.payments.service.load import get_payment
from florin_server.money.payments.service.watch import watch


class PaymentCalls:
    """Status, watch and cancel; the caller decides which payments they reach."""

    def __init__(self, app: ApiContext, codec: PaymentCodec) -> None:
        self._app = app
        self._codec = codec

    async def GetPaymentStatus(
        self, request: payment_pb2.GetPaymentStatusRequest, context: Any
    ) -> payment_pb2.GetPaymentStatusResponse:
        """Return the status."""
        return self._codec.to_status_response(
            await get_payment(self._app, get_caller(), request.payment_id)
        )

    async def CancelPayment(
        self, request: payment_pb2.CancelPaymentRequest, context: Any
    ) -> payment_pb2.CancelPaymentResponse:
        """Cancel the payment."""
        build = self._codec.to_cancel_response
        outcome = await cancel(
            self._app, get_caller(), request.payment_id, make_response_encoder(build)
        )
        return build_response(outcome, build, payment_pb2.CancelPaymentResponse)

    async def WatchPayment(
        self, request: payment_pb2.WatchPaymentRequest, context: Any
    ) -> AsyncIterator[payment_pb2.WatchPaymentResponse]:
        """Stream the current status, and the newest status after each change."""
        payment = await get_payment(self._app, get_caller(), request.payment_id)
        await current_call.get().accept()
        after = request.after_version if request.HasField("after_version") else None
        async for state in watch(self._app, payment, after):
            yield self._codec.to_watch_response(state)
