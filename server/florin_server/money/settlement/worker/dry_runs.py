"""Dry runs of payments before they are sent, and how payments share a transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from florin_server.domain.settlement.chain_txs import PayerKind, SettlementItem
from florin_server.rails.roles import GasPlanner, SettlementRelay


def partition(
    gas: GasPlanner | None, items: Sequence[SettlementItem]
) -> list[Sequence[SettlementItem]]:
    """Partition items into transactions; items that failed before share none, and come last."""
    if gas is None:
        return [[item] for item in sorted(items, key=lambda item: item.isolated)]
    together = [item for item in items if not item.isolated]
    return [*gas.split_into_batches(together), *([item] for item in items if item.isolated)]


async def refresh_payers(
    gas: GasPlanner | None, items: list[SettlementItem]
) -> list[SettlementItem]:
    """Return the items with their payers' present kind, where that makes a difference."""
    return items if gas is None else await gas.refresh_payers(items)


async def check_settleable(
    relay: SettlementRelay,
    items: Sequence[SettlementItem],
    unsettled_items: Collection[SettlementItem],
) -> list[bool]:
    """Return which items would settle now, given all that were tried or sent before.

    A payment that was just verified alone needs no second check. A retried payment, or one whose
    payer has another open payment, may have lost its funds to that. One that needs more than a
    signature may wait for the buyer's own transaction.
    """
    payers = Counter(item.option.payer for item in items)
    payers.update(item.option.payer for item in unsettled_items)
    before = {item.payment.id for item in unsettled_items}
    if all(
        payers[item.option.payer] == 1
        and item.payment.id not in before
        and len(item.confirmation.outputs) == 1
        for item in items
    ):
        return [True] * len(items)
    return await relay.simulate(items)


async def select_settleable(
    relay: SettlementRelay, sender: str, items: Sequence[SettlementItem]
) -> Sequence[SettlementItem]:
    """Return the items that would settle if a key sent them now.

    An account with code can have changed its answer a moment ago, or give other callers another
    answer than the sender; and so can what failed before.
    """
    if all(item.payer_kind in {None, PayerKind.KEY} and not item.isolated for item in items):
        return items
    good = await relay.simulate(items, sender)
    return [item for item, ok in zip(items, good, strict=True) if ok]
