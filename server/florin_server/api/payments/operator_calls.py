"""The operator's calls about payments."""

from __future__ import annotations

from typing import Any

import orjson
from florin.v1 import listing_pb2, trace_pb2

from florin_server.accounts.service import partners
from florin_server.api.context import ApiContext
from florin_server.api.payments.codec import PaymentCodec, to_payment_event
from florin_server.api.payments.listing_codec import PaymentListCodec, parse_list_query
from florin_server.domain.accounts.caller import Caller
from florin_server.money.payments.service import lists
from florin_server.money.payments.service.address_state import load_address_state
from florin_server.money.payments.service.trace import PaymentTransaction, get_trace


class OperatorPaymentCalls:
    """Payments of any partner: list them, and trace one."""

    _app: ApiContext

    async def ListPartnerPayments(
        self, request: listing_pb2.ListPartnerPaymentsRequest, context: Any
    ) -> listing_pb2.ListPaymentsResponse:
        """List payments of a partner."""
        list_filter = request.filter
        await partners.get(self._app, request.partner_id)
        owner = Caller(live=request.live, partner_id=request.partner_id)
        page = await lists.list_for_partner(
            self._app, owner, parse_list_query(list_filter), list_filter.merchant_id
        )
        return PaymentListCodec(PaymentCodec(self._app)).to_list_response(page)

    async def TracePayment(
        self, request: trace_pb2.TracePaymentRequest, context: Any
    ) -> trace_pb2.TracePaymentResponse:
        """Return all details of one payment."""
        trace = await get_trace(self._app, request.payment_id)
        detail = PaymentCodec(self._app).to_payment_detail(
            trace.payment,
            trace.merchant,
            trace.refunds,
            await load_address_state(self._app, trace.payment),
        )
        return trace_pb2.TracePaymentResponse(
            payment=detail,
            partner_id=trace.payment.partner_id,
            events=[
                trace_pb2.TracedEvent(
                    event=to_payment_event(event_record),
                    detail_json=_encode_json(event_record.details),
                )
                for event_record in trace.changes
            ],
            transactions=[] if trace.transaction is None else [_to_transaction(trace.transaction)],
        )


def _encode_json(detail: Any) -> str:
    return orjson.dumps(detail).decode() if detail else ""


def _to_transaction(transaction: PaymentTransaction) -> trace_pb2.TracedTransaction:
    return trace_pb2.TracedTransaction(
        chain_id=transaction.chain_id,
        hash=transaction.hash,
        sender=transaction.sender or "",
        block=transaction.block,
        confirmations=transaction.confirmations,
    )
