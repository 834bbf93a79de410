"""What became of a payout whose transaction is over."""

from __future__ import annotations

from florin_server.domain.ledger.postings import paid_out
from florin_server.domain.payouts.payout import Payout
from florin_server.flows.app import Core
from florin_server.rails.protocol import Rail
from florin_server.rails.roles import Payouts
from florin_server.rails.types import Effect, Transfer
from florin_server.store.payouts.payouts import Outcome
from florin_server.workers.settlement.tx_sender import Ended

# One whose transaction failed cost gas, and its receiver may want that: it is sent again once it
# is twice as old, so that a year has room for some twenty of them.
_FAILED_MIN_US = 60_000_000


async def judge(app: Core, rail: Rail, treasury: Payouts, one: Payout, ended: Ended) -> Outcome:
    """Return whether a payout is done, waits again, or is left to the operator."""
    tx = ended.tx
    if ended.mined is None:
        lapsed = one.lapses_at is not None
        what = "lapsed before it landed" if lapsed else "was replaced by another one"
        problem, now_us = f"its transaction {tx.hash} {what}", app.clock.now_us()
        return Outcome(one, retry_at_us=now_us, problem=problem, lapsed=lapsed)
    mined = ended.end.final_hash or tx.hash
    effect = await treasury.effect(tx, mined, transfer_of(one))
    if effect is Effect.EXACT:
        return Outcome(one, mined, paid_out(one, rail.treasury))
    if effect is Effect.NOTHING:
        problem = f"its transaction {mined} failed"
        now_us = app.clock.now_us()
        due_us = now_us + max(now_us - one.created_at_us, _FAILED_MIN_US)
        return Outcome(one, retry_at_us=due_us, problem=problem)
    problem = f"its transaction {mined} is final, and it is not proven what it moved"
    return Outcome(one, mined, problem=problem)


def transfer_of(one: Payout) -> Transfer:
    """Return the transfer that a payout asks for."""
    return Transfer(one.id, one.asset, one.account, one.value)


def name_of(outcome: Outcome) -> str:
    """Return what became of a payout, as it is counted."""
    if outcome.posting is not None:
        return "done"
    return "unproven" if outcome.retry_at_us is None else "again"
