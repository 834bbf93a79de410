"""Which payments are tried before they are sent, and with whom they share a transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from florin_server.domain.settlement.chain_txs import Accepted, PayerKind
from florin_server.rails.roles import Gas, Relay


def parts(gas: Gas | None, items: Sequence[Accepted]) -> list[Sequence[Accepted]]:
    """Items as they share transactions; what failed before shares none, and comes last."""
    if gas is None:
        return [[item] for item in sorted(items, key=lambda item: item.alone)]
    together = [item for item in items if not item.alone]
    return [*gas.batches(together), *([item] for item in items if item.alone)]


async def looked_at(gas: Gas | None, items: list[Accepted]) -> list[Accepted]:
    """The items with what their payers are now, where that makes a difference."""
    return items if gas is None else await gas.look(items)


async def settleable(
    relay: Relay, items: Sequence[Accepted], unsettled: Collection[Accepted]
) -> list[bool]:
    """Which items would settle now; `unsettled` are all that were tried or sent before.

    A payment that was verified alone just now needs no second look. One that is tried again,
    or whose payer has another payment under way, may have lost its funds to that; one with
    more than a signature may wait for what its buyer sent.
    """
    payers = Counter(item.option.payer for item in items)
    payers.update(item.option.payer for item in unsettled)
    before = {item.payment.id for item in unsettled}
    if all(
        payers[item.option.payer] == 1
        and item.payment.id not in before
        and len(item.confirmation.outputs) == 1
        for item in items
    ):
        return [True] * len(items)
    return await relay.simulate(items)


async def tried(relay: Relay, sender: str, items: Sequence[Accepted]) -> Sequence[Accepted]:
    """Those that would settle if a key sent them now.

    An account with code may have changed its mind since a moment ago, or never meant what it
    said to others than the one who sends; and so may what failed before.
    """
    if all(item.kind in {None, PayerKind.KEY} and not item.alone for item in items):
        return items
    good = await relay.simulate(items, sender)
    return [item for item, ok in zip(items, good, strict=True) if ok]
