"""The wallet side over gRPC."""

from __future__ import annotations

from typing import Any

from florin.v1 import gateway_pb2, gateway_pb2_grpc, payment_pb2

from florin_server.domain.payments.payment import Status
from florin_server.flows.payments.confirm import confirm
from florin_server.flows.payments.fetch import fetch
from florin_server.flows.payments.load import find, merchant_of
from florin_server.flows.payments.options import options
from florin_server.rpc.payments import codec
from florin_server.rpc.payments.shared import PaymentCalls
from florin_server.rpc.server.call import caller


class GatewayServicer(PaymentCalls, gateway_pb2_grpc.GatewayServiceServicer):
    """Calls that wallets make."""

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
            options=[
                self._codec.option(option, found.asked.urls.get(option.id))
                for option in found.options
            ],
            collect_data=codec.collect_data(found.asked.url),
            info=info,
            result_info=self._codec.information(payment),
        )

    async def FetchAction(
        self, request: gateway_pb2.FetchActionRequest, context: Any
    ) -> gateway_pb2.FetchActionResponse:
        """Resolves an option into executable actions."""
        actions = await fetch(
            self._app,
            caller(),
            request.payment_id,
            request.option_id,
            request.data,
            collected=_collected(request),
        )
        return gateway_pb2.FetchActionResponse(actions=[codec.action(a) for a in actions])

    async def ConfirmPayment(
        self, request: gateway_pb2.ConfirmPaymentRequest, context: Any
    ) -> payment_pb2.GetPaymentStatusResponse:
        """Binds the results to the payment and submits it."""
        outputs = [list(result.output_json) for result in request.results]
        payment = await confirm(
            self._app,
            caller(),
            request.payment_id,
            request.option_id,
            outputs,
            collected=_collected(request),
        )
        return self._codec.status(payment)


def _collected(
    request: gateway_pb2.FetchActionRequest | gateway_pb2.ConfirmPaymentRequest,
) -> str | None:
    return request.collected_data_json if request.HasField("collected_data_json") else None
