"""The outcome of a payout whose transaction has ended."""

from __future__ import annotations

from florin_server.db.context import StorageContext
from florin_server.domain.ledger.postings import build_payout_posting
from florin_server.domain.payouts.payout import Payout
from florin_server.money.payouts.store.payouts import PayoutOutcome
from florin_server.money.settlement.worker.tx_sender import EndedTransaction
from florin_server.rails.protocol import Rail
from florin_server.rails.roles import TreasuryPayouts
from florin_server.rails.types import TransferEffect, TreasuryTransfer

# A failed transaction cost gas, and its receiver may want that: the payout is sent again once it is
# twice as old, so at most about twenty times a year.
_FAILED_MIN_US = 60_000_000


async def get_outcome(
    app: StorageContext,
    rail: Rail,
    treasury: TreasuryPayouts,
    payout: Payout,
    ended_tx: EndedTransaction,
) -> PayoutOutcome:
    """Return whether a payout is done, waits again, or is left to the operator."""
    tx = ended_tx.tx
    if ended_tx.mined is None:
        lapsed = payout.lapses_at is not None
        end_text = "lapsed before it landed" if lapsed else "was replaced by another transaction"
        problem, now_us = f"its transaction {tx.hash} {end_text}", app.clock.now_us()
        return PayoutOutcome(payout, retry_at_us=now_us, problem=problem, has_lapsed=lapsed)
    tx_hash = ended_tx.outcome.final_hash or tx.hash
    effect = await treasury.read_effect(tx, tx_hash, to_transfer(payout))
    if effect is TransferEffect.EXACT:
        return PayoutOutcome(payout, tx_hash, build_payout_posting(payout, rail.treasury))
    if effect is TransferEffect.NOTHING:
        problem = f"its transaction {tx_hash} failed"
        now_us = app.clock.now_us()
        due_us = now_us + max(now_us - payout.created_at_us, _FAILED_MIN_US)
        return PayoutOutcome(payout, retry_at_us=due_us, problem=problem)
    problem = f"its transaction {tx_hash} is final, but what it moved is not proven"
    return PayoutOutcome(payout, tx_hash, problem=problem)


def to_transfer(payout: Payout) -> TreasuryTransfer:
    """Return the transfer of a payout."""
    return TreasuryTransfer(payout.id, payout.asset, payout.account, payout.value)


def format_outcome(outcome: PayoutOutcome) -> str:
    """Return what became of a payout, as it is counted."""
    if outcome.posting is not None:
        return "done"
    return "unproven" if outcome.retry_at_us is None else "again"
