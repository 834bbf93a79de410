"""The merchant side over gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from florin.v1 import merchant_pb2, merchant_pb2_grpc, payment_pb2, refund_pb2

from florin_server.api.payments import codec
from florin_server.api.payments.listing import PaymentListCalls
from florin_server.api.payments.payment_calls import PaymentCalls
from florin_server.api.payouts.deposit_claims import MerchantClaimCalls
from florin_server.api.receipts.receipts import ReceiptCalls
from florin_server.api.server.call import get_caller
from florin_server.api.server.replay import build_response, make_response_encoder
from florin_server.domain.payments.payment import Merchant
from florin_server.domain.urls import parse_redirect_urls
from florin_server.money.payments.service.address_state import load_address_state
from florin_server.money.payments.service.create import create
from florin_server.money.payments.service.load import get_payment
from florin_server.money.payments.service.trace import list_changes
from florin_server.money.payments.service.watch import watch_refund
from florin_server.money.refunds.service import list_refunds, request_refund
from florin_server.money.x402.service.offers import accepts_x402


def _get_merchant() -> Merchant:
    merchant = get_caller().merchant
    if merchant is None:
        raise RuntimeError("the access rule of a merchant call must require a merchant")
    return merchant


class MerchantServicer(
    PaymentCalls,
    PaymentListCalls,
    MerchantClaimCalls,
    ReceiptCalls,
    merchant_pb2_grpc.MerchantServiceServicer,
):
    """The calls of a merchant's back end."""

    async def CreatePayment(
        self, request: merchant_pb2.CreatePaymentRequest, context: Any
    ) -> merchant_pb2.CreatePaymentResponse:
        """Create a payment, or return the stored response of its idempotency key."""
        new_payment = codec.parse_new_payment(request)
        _, problem = parse_redirect_urls(new_payment.success_url, new_payment.error_url)
        build = partial(self._codec.to_create_response, checkout_problem=problem)
        outcome = await create(
            self._app, get_caller(), _get_merchant(), new_payment, make_response_encoder(build)
        )
        return build_response(outcome, build, merchant_pb2.CreatePaymentResponse)

    async def GetPayment(
        self, request: payment_pb2.GetPaymentRequest, context: Any
    ) -> merchant_pb2.PaymentDetail:
        """Return all details of one payment."""
        payment = await get_payment(self._app, get_caller(), request.payment_id)
        return self._codec.to_payment_detail(
            payment,
            _get_merchant(),
            await list_refunds(self._app, payment),
            await load_address_state(self._app, payment),
            accepts_x402=await accepts_x402(self._app, payment),
        )

    async def ListPaymentEvents(
        self, request: payment_pb2.ListPaymentEventsRequest, context: Any
    ) -> payment_pb2.ListPaymentEventsResponse:
        """List the changes of one payment."""
        payment = await get_payment(self._app, get_caller(), request.payment_id)
        events = [
            codec.to_payment_event(event_record)
            for event_record in await list_changes(self._app, payment)
        ]
        return payment_pb2.ListPaymentEventsResponse(events=events)

    async def CreateRefund(
        self, request: refund_pb2.CreateRefundRequest, context: Any
    ) -> refund_pb2.CreateRefundResponse:
        """Create a refund, or return the stored response of its idempotency key."""
        build = self._codec.to_refund_response
        refund_request = codec.parse_refund_request(request)
        outcome = await request_refund(
            self._app, get_caller(), refund_request, make_response_encoder(build)
        )
        return build_response(outcome, build, refund_pb2.CreateRefundResponse)

    async def WatchRefund(
        self, request: refund_pb2.WatchRefundRequest, context: Any
    ) -> AsyncIterator[refund_pb2.WatchRefundResponse]:
        """Stream a refund of a payment: its current state, and again after each change."""
        payment = await get_payment(self._app, get_caller(), request.payment_id)
        async for refund in watch_refund(self._app, payment, request.refund_id):
            yield refund_pb2.WatchRefundResponse(refund=self._codec.to_refund(payment, refund))
