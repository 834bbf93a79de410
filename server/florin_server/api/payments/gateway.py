"""The wallet side over gRPC."""

from __future__ import annotations

from typing import Any

from florin.v1 import address_pb2, gateway_pb2, gateway_pb2_grpc, payment_pb2

from florin_server.api.payments import codec
from florin_server.api.payments.payment_calls import PaymentCalls
from florin_server.api.payouts.deposit_claims import BuyerClaimCalls
from florin_server.api.server.call import get_caller
from florin_server.domain.payments.payment import Payment, PaymentStatus
from florin_server.money.payments.service.address_state import (
    build_requested_views,
    load_address_state,
)
from florin_server.money.payments.service.addresses import open_addresses
from florin_server.money.payments.service.confirm import confirm
from florin_server.money.payments.service.fetch import fetch
from florin_server.money.payments.service.load import get_merchant, get_payment
from florin_server.money.payments.service.options import list_options
from florin_server.money.x402.service.offers import accepts_x402


class GatewayServicer(PaymentCalls, BuyerClaimCalls, gateway_pb2_grpc.GatewayServiceServicer):
    """The wallet's calls."""

    async def GetPayment(
        self, request: payment_pb2.GetPaymentRequest, context: Any
    ) -> gateway_pb2.PaymentInfo:
        """Return the payment as wallets see it."""
        payment = await get_payment(self._app, get_caller(), request.payment_id)
        return await self._load_info(payment)

    async def _load_info(self, payment: Payment) -> gateway_pb2.PaymentInfo:
        merchant = await get_merchant(self._app, payment)
        state = await load_address_state(self._app, payment)
        return self._codec.to_payment_info(
            payment, merchant, state, accepts_x402=await accepts_x402(self._app, payment)
        )

    async def GetPaymentOptions(
        self, request: gateway_pb2.GetPaymentOptionsRequest, context: Any
    ) -> gateway_pb2.GetPaymentOptionsResponse:
        """List the payment options of the accounts."""
        payment_options = await list_options(
            self._app, get_caller(), request.payment_id, request.accounts
        )
        payment = payment_options.payment
        if payment is None:
            return gateway_pb2.GetPaymentOptionsResponse(payment_id=request.payment_id)
        include_payment_info = (
            request.include_payment_info or payment.status is not PaymentStatus.REQUIRES_ACTION
        )
        info = None
        if include_payment_info:
            info = await self._load_info(payment)
        return gateway_pb2.GetPaymentOptionsResponse(
            payment_id=payment.id,
            options=[
                self._codec.to_option(option, payment_options.data_requirement.urls.get(option.id))
                for option in payment_options.options
            ],
            collect_data=codec.to_collect_data(payment_options.data_requirement.url),
            info=info,
            result_info=self._codec.to_payment_information(payment),
        )

    async def OpenAddresses(
        self, request: address_pb2.OpenAddressesRequest, context: Any
    ) -> address_pb2.OpenAddressesResponse:
        """Return addresses to which any wallet or exchange can send the payment."""
        refund_account = request.refund_account if request.HasField("refund_account") else None
        requested = await open_addresses(
            self._app, get_caller(), request.payment_id, request.assets, refund_account
        )
        payment = await get_payment(self._app, get_caller(), request.payment_id)
        views = await build_requested_views(self._app, payment, requested)
        return address_pb2.OpenAddressesResponse(
            payment_id=payment.id, addresses=self._codec.to_pay_addresses(views)
        )

    async def FetchAction(
        self, request: gateway_pb2.FetchActionRequest, context: Any
    ) -> gateway_pb2.FetchActionResponse:
        """Resolve an option into executable actions."""
        actions = await fetch(
            self._app,
            get_caller(),
            request.payment_id,
            request.option_id,
            request.data,
            buyer_data_json=_find_collected_data(request),
        )
        return gateway_pb2.FetchActionResponse(actions=[codec.to_action(a) for a in actions])

    async def ConfirmPayment(
        self, request: gateway_pb2.ConfirmPaymentRequest, context: Any
    ) -> payment_pb2.GetPaymentStatusResponse:
        """Bind the results to the payment and submit it."""
        outputs = [list(result.output_json) for result in request.results]
        payment = await confirm(
            self._app,
            get_caller(),
            request.payment_id,
            request.option_id,
            outputs,
            buyer_data_json=_find_collected_data(request),
        )
        return self._codec.to_status_response(payment)


def _find_collected_data(
    request: gateway_pb2.FetchActionRequest | gateway_pb2.ConfirmPaymentRequest,
) -> str | None:
    return request.collected_data_json if request.HasField("collected_data_json") else None
