"""The operator's calls about money of blocked payers."""

from __future__ import annotations

from typing import Any

from florin.v1 import held_pb2

from florin_server.api.context import ApiContext
from florin_server.api.server.timestamps import to_timestamp
from florin_server.domain.errors import validation_error
from florin_server.domain.payouts.held_money import HeldMoney, HeldMoneyState
from florin_server.money.payouts.service import held_money

_STATE = {
    state: held_pb2.HeldPaymentState.Value(f"HELD_PAYMENT_STATE_{state.upper()}")
    for state in HeldMoneyState
}
_STATE_BY_VERDICT: dict[int, HeldMoneyState] = {
    held_pb2.HELD_PAYMENT_VERDICT_RELEASE: HeldMoneyState.RELEASED,
    held_pb2.HELD_PAYMENT_VERDICT_RETURN: HeldMoneyState.RETURNED,
    held_pb2.HELD_PAYMENT_VERDICT_KEEP: HeldMoneyState.KEPT,
}


class HeldMoneyCalls:
    """Held payments: list, resolve."""

    _app: ApiContext

    async def ListHeldPayments(
        self, request: held_pb2.ListHeldPaymentsRequest, context: Any
    ) -> held_pb2.ListHeldPaymentsResponse:
        """List held payments."""
        held_payments = await held_money.list_held_money(self._app, include_closed=request.all)
        return held_pb2.ListHeldPaymentsResponse(
            held_payments=[_to_held_payment(held_payment) for held_payment in held_payments]
        )

    async def ResolveHeldPayment(
        self, request: held_pb2.ResolveHeldPaymentRequest, context: Any
    ) -> held_pb2.HeldPayment:
        """Apply the operator's verdict on a held payment."""
        verdict = _STATE_BY_VERDICT.get(request.verdict)
        if verdict is None:
            raise validation_error("verdict", "must be release, return or keep")
        done = await held_money.resolve(
            self._app,
            request.held_id,
            verdict,
            request.note,
            even_if_blocked=request.even_if_blocked,
        )
        return _to_held_payment(done)


def _to_held_payment(item: HeldMoney) -> held_pb2.HeldPayment:
    decided_at_us = item.decided_at_us
    return held_pb2.HeldPayment(
        held_id=item.id,
        payment_id=item.payment_id,
        state=_STATE[item.state],
        payer=item.payer,
        asset=item.asset,
        amount=str(item.value),
        held_amount=str(item.held),
        late=item.late,
        reason=item.why,
        tx_id=item.tx_hash,
        held_at=to_timestamp(item.since_us),
        note=item.note or "",
        decided_at=None if decided_at_us is None else to_timestamp(decided_at_us),
        payout_id=item.payout_id or "",
    )
