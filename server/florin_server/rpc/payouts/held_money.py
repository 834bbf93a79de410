"""The operator's calls about money of blocked payers."""

from __future__ import annotations

from typing import Any

from florin.v1 import held_pb2

from florin_server.domain.errors import invalid
from florin_server.domain.payouts.held_money import HeldMoney, HeldState
from florin_server.flows.app import App
from florin_server.flows.payouts import held_money
from florin_server.rpc.server.timestamps import timestamp

_STATE = {
    state: held_pb2.HeldPaymentState.Value(f"HELD_PAYMENT_STATE_{state.upper()}")
    for state in HeldState
}
_VERDICT: dict[int, HeldState] = {
    held_pb2.HELD_PAYMENT_VERDICT_RELEASE: HeldState.RELEASED,
    held_pb2.HELD_PAYMENT_VERDICT_RETURN: HeldState.RETURNED,
    held_pb2.HELD_PAYMENT_VERDICT_KEEP: HeldState.KEPT,
}


class HeldCalls:
    """Held payments: listed, resolved."""

    _app: App

    async def ListHeldPayments(
        self, request: held_pb2.ListHeldPaymentsRequest, context: Any
    ) -> held_pb2.ListHeldPaymentsResponse:
        """Lists held payments."""
        found = await held_money.listed(self._app, all_=request.all)
        return held_pb2.ListHeldPaymentsResponse(held_payments=[_held(one) for one in found])

    async def ResolveHeldPayment(
        self, request: held_pb2.ResolveHeldPaymentRequest, context: Any
    ) -> held_pb2.HeldPayment:
        """Gives the verdict on a held payment."""
        verdict = _VERDICT.get(request.verdict)
        if verdict is None:
            raise invalid("verdict", "must tell what becomes of the money")
        done = await held_money.resolve(
            self._app,
            request.held_id,
            verdict,
            request.note,
            even_if_blocked=request.even_if_blocked,
        )
        return _held(done)


def _held(one: HeldMoney) -> held_pb2.HeldPayment:
    decided_at_us = one.decided_at_us
    return held_pb2.HeldPayment(
        held_id=one.id,
        payment_id=one.payment_id,
        state=_STATE[one.state],
        payer=one.payer,
        asset=one.asset,
        amount=str(one.value),
        held_amount=str(one.held),
        late=one.late,
        reason=one.why,
        tx_id=one.tx_hash,
        held_at=timestamp(one.since_us),
        note=one.note or "",
        decided_at=None if decided_at_us is None else timestamp(decided_at_us),
        payout_id=one.payout_id or "",
    )
