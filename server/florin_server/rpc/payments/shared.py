"""The calls that both sides of a payment have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from florin.v1 import payment_pb2

from florin_server.flows.app import App
from florin_server.flows.payments.cancel import cancel
from florin_server.flows.payments.load import find
from florin_server.flows.payments.watch import watch
from florin_server.rpc.payments.codec import Codec
from florin_server.rpc.server.call import CALL, caller
from florin_server.rpc.server.replay import answer, stored


class PaymentCalls:
    """Status, watch and cancel; whose payments they reach depends on the caller."""

    def __init__(self, app: App, answers: Codec) -> None:
        self._app = app
        self._codec = answers

    async def GetPaymentStatus(
        self, request: payment_pb2.GetPaymentStatusRequest, context: Any
    ) -> payment_pb2.GetPaymentStatusResponse:
        """Tells the status."""
        return self._codec.status(await find(self._app, caller(), request.payment_id))

    async def CancelPayment(
        self, request: payment_pb2.CancelPaymentRequest, context: Any
    ) -> payment_pb2.CancelPaymentResponse:
        """Calls the payment off."""
        build = self._codec.cancelled
        outcome = await cancel(self._app, caller(), request.payment_id, stored(build))
        return answer(outcome, build, payment_pb2.CancelPaymentResponse)

    async def WatchPayment(
        self, request: payment_pb2.WatchPaymentRequest, context: Any
    ) -> AsyncIterator[payment_pb2.WatchPaymentResponse]:
        """Tells the status, and the newest one whenever it has changed."""
        payment = await find(self._app, caller(), request.payment_id)
        await CALL.get().take_up()
        after = request.after_version if request.HasField("after_version") else None
        async for state in watch(self._app, payment, after):
            yield self._codec.update(state)
