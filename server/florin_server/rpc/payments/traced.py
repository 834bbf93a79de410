"""The operator's calls about payments."""

from __future__ import annotations

from typing import Any

import orjson
from florin.v1 import listing_pb2, trace_pb2

from florin_server.flows.accounts import partners
from florin_server.flows.app import App, Caller
from florin_server.flows.payments import lists
from florin_server.flows.payments.trace import Transaction, trace
from florin_server.rpc.payments.codec import Codec, happened
from florin_server.rpc.payments.listing_codec import ListingCodec, wanted


class TracedCalls:
    """Payments of any partner: listed, and one with everything that is known of it."""

    _app: App

    async def ListPartnerPayments(
        self, request: listing_pb2.ListPartnerPaymentsRequest, context: Any
    ) -> listing_pb2.ListPaymentsResponse:
        """Lists payments of a partner."""
        asked = request.filter
        await partners.known(self._app, request.partner_id)
        owner = Caller(live=request.live, partner_id=request.partner_id)
        found = await lists.of_partner(self._app, owner, wanted(asked), asked.merchant_id)
        return ListingCodec(Codec(self._app)).page(found)

    async def TracePayment(
        self, request: trace_pb2.TracePaymentRequest, context: Any
    ) -> trace_pb2.TracePaymentResponse:
        """Tells everything about one payment."""
        found = await trace(self._app, request.payment_id)
        detail = Codec(self._app).detail(found.payment, found.merchant, found.refunds)
        return trace_pb2.TracePaymentResponse(
            payment=detail,
            partner_id=found.payment.partner_id,
            events=[
                trace_pb2.TracedEvent(event=happened(one), detail_json=_json(one.facts))
                for one in found.changes
            ],
            transactions=[] if found.transaction is None else [_transaction(found.transaction)],
        )


def _json(detail: Any) -> str:
    return orjson.dumps(detail).decode() if detail else ""


def _transaction(one: Transaction) -> trace_pb2.TracedTransaction:
    return trace_pb2.TracedTransaction(
        chain_id=one.chain_id,
        hash=one.hash,
        sender=one.sender or "",
        block=one.block,
        confirmations=one.confirmations,
    )
