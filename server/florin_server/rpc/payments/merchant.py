"""The merchant side over gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from florin.v1 import merchant_pb2, merchant_pb2_grpc, payment_pb2, refund_pb2

from florin_server.domain.payments.payment import Merchant
from florin_server.domain.urls import checkout_urls
from florin_server.flows.payments.create import create
from florin_server.flows.payments.load import find
from florin_server.flows.payments.trace import changes
from florin_server.flows.payments.watch import watch_refund
from florin_server.flows.payouts.refund import list_refunds, refund
from florin_server.rpc.payments import codec
from florin_server.rpc.payments.listing import ListingCalls
from florin_server.rpc.payments.shared import PaymentCalls
from florin_server.rpc.receipts.receipts import ReceiptCalls
from florin_server.rpc.server.call import caller
from florin_server.rpc.server.replay import answer, stored


def _merchant() -> Merchant:
    merchant = caller().merchant
    if merchant is None:
        raise RuntimeError("the access rule of a merchant call must ask for a merchant")
    return merchant


class MerchantServicer(
    PaymentCalls, ListingCalls, ReceiptCalls, merchant_pb2_grpc.MerchantServiceServicer
):
    """Calls that a merchant's back end makes."""

    async def CreatePayment(
        self, request: merchant_pb2.CreatePaymentRequest, context: Any
    ) -> merchant_pb2.CreatePaymentResponse:
        """Creates a payment, or repeats the answer of its idempotency key."""
        wanted = codec.new_payment(request)
        _, problem = checkout_urls(wanted.success_url, wanted.error_url)
        build = partial(self._codec.created, checkout_problem=problem)
        outcome = await create(self._app, caller(), _merchant(), wanted, stored(build))
        return answer(outcome, build, merchant_pb2.CreatePaymentResponse)

    async def GetPayment(
        self, request: payment_pb2.GetPaymentRequest, context: Any
    ) -> merchant_pb2.PaymentDetail:
        """Tells everything about one payment."""
        payment = await find(self._app, caller(), request.payment_id)
        return self._codec.detail(payment, _merchant(), await list_refunds(self._app, payment))

    async def ListPaymentEvents(
        self, request: payment_pb2.ListPaymentEventsRequest, context: Any
    ) -> payment_pb2.ListPaymentEventsResponse:
        """Lists what happened to one payment."""
        payment = await find(self._app, caller(), request.payment_id)
        told = [codec.happened(one) for one in await changes(self._app, payment)]
        return payment_pb2.ListPaymentEventsResponse(events=told)

    async def CreateRefund(
        self, request: refund_pb2.CreateRefundRequest, context: Any
    ) -> refund_pb2.CreateRefundResponse:
        """Asks for a refund, or repeats the answer of its idempotency key."""
        build = self._codec.refunded
        wanted = codec.refund_request(request)
        outcome = await refund(self._app, caller(), wanted, stored(build))
        return answer(outcome, build, refund_pb2.CreateRefundResponse)

    async def WatchRefund(
        self, request: refund_pb2.WatchRefundRequest, context: Any
    ) -> AsyncIterator[refund_pb2.WatchRefundResponse]:
        """Stream a refund of a payment: as it is, and again whenever its status changes."""
        payment = await find(self._app, caller(), request.payment_id)
        async for one in watch_refund(self._app, payment, request.refund_id):
            yield refund_pb2.WatchRefundResponse(refund=self._codec.refund(payment, one))
