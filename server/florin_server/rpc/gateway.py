"""The wallet side over gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from florin.v1 import gateway_pb2, gateway_pb2_grpc, payment_pb2

from florin_server.domain.payment import Status
from florin_server.flows.app import App
from florin_server.flows.cancel import cancel
from florin_server.flows.confirm import confirm
from florin_server.flows.fetch import fetch
from florin_server.flows.load import find, merchant_of
from florin_server.flows.options import options
from florin_server.flows.watch import watch
from florin_server.rpc import codec
from florin_server.rpc.call import caller


class GatewayServicer(gateway_pb2_grpc.GatewayServiceServicer):
    """Calls that wallets make."""

    def __init__(self, app: App, answers: codec.Codec) -> None:
        self._app = app
        self._codec = answers

    async def GetPayment(
        self, request: payment_pb2.GetPaymentRequest, context: Any
    ) -> gateway_pb2.PaymentInfo:
        """Tells what the payment is about."""
        payment = await find(self._app, caller(), request.payment_id)
        return self._codec.info(payment, await merchant_of(self._app, payment))

    async def GetPaymentOptions(
        self, request: gateway_pb2.GetPaymentOptionsRequest, context: Any
    ) -> gateway_pb2.GetPaymentOptionsResponse:
        """Lists what the accounts can pay with."""
        found = await options(self._app, caller(), request.payment_id, request.accounts)
        payment = found.payment
        if payment is None:
            return gateway_pb2.GetPaymentOptionsResponse(payment_id=request.payment_id)
        wanted = request.include_payment_info or payment.status is not Status.REQUIRES_ACTION
        info = None
        if wanted:
            info = self._codec.info(payment, await merchant_of(self._app, payment))
        return gateway_pb2.GetPaymentOptionsResponse(
            payment_id=payment.id,
            options=[self._codec.option(option) for option in found.options],
            info=info,
            result_info=self._codec.information(payment),
        )

    async def FetchAction(
        self, request: gateway_pb2.FetchActionRequest, context: Any
    ) -> gateway_pb2.FetchActionResponse:
        """Resolves an option into executable actions."""
        actions = await fetch(
            self._app, caller(), request.payment_id, request.option_id, request.data
        )
        return gateway_pb2.FetchActionResponse(actions=[codec.action(a) for a in actions])

    async def ConfirmPayment(
        self, request: gateway_pb2.ConfirmPaymentRequest, context: Any
    ) -> payment_pb2.GetPaymentStatusResponse:
        """Binds the results to the payment and submits it."""
        outputs = [list(result.output_json) for result in request.results]
        payment = await confirm(self._app, caller(), request.payment_id, request.option_id, outputs)
        return self._codec.status(payment)

    async def GetPaymentStatus(
        self, request: payment_pb2.GetPaymentStatusRequest, context: Any
    ) -> payment_pb2.GetPaymentStatusResponse:
        """Tells the status."""
        return self._codec.status(await find(self._app, caller(), request.payment_id))

    async def CancelPayment(
        self, request: payment_pb2.CancelPaymentRequest, context: Any
    ) -> payment_pb2.CancelPaymentResponse:
        """Calls the payment off."""
        return self._codec.cancelled(await cancel(self._app, caller(), request.payment_id))

    async def WatchPayment(
        self, request: payment_pb2.WatchPaymentRequest, context: Any
    ) -> AsyncIterator[payment_pb2.WatchPaymentResponse]:
        """Tells the status and every change of it."""
        after = request.after_version if request.HasField("after_version") else None
        async for payment in watch(self._app, caller(), request.payment_id, after):
            yield self._codec.update(payment)
