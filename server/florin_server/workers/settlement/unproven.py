"""Payments that the settlement contract says are paid, while no node tells their events."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from florin_server.domain.settlement.chain_txs import Accepted
from florin_server.rails.roles import DirectSettlement

_log = logging.getLogger(__name__)

# named in a chain's health; all are in the log
_NAMED = 3


class Unproven:
    """Those of one chain. They stay as they are until their events are found.

    `direct` tells what wallets sent, `find` looks for the events of items, `seen` tells whether an
    item's event was found.
    """

    def __init__(
        self,
        direct: DirectSettlement | None,
        find: Callable[[Sequence[Accepted]], Awaitable[None]],
        seen: Callable[[Accepted], bool],
    ) -> None:
        self._direct = direct
        self._find = find
        self._seen = seen
        self._ids: set[str] = set()

    async def holds(self, item: Accepted) -> bool:
        """True if the chain says that a wallet paid an item: it must have an event."""
        direct, option = self._direct, item.option
        if direct is None or not direct.is_direct(option) or not await direct.is_paid(option):
            return False
        await self._find([item])
        if self._seen(item):
            self.forget([item.payment.id])
        elif item.payment.id not in self._ids:
            self._ids.add(item.payment.id)
            text = "payment %s is paid, the contract says, but no node tells by what transaction"
            _log.error(text, item.payment.id)
        return True

    def forget(self, payment_ids: Iterable[str]) -> None:
        """Their events were found, or others ended them."""
        self._ids.difference_update(payment_ids)

    def problem(self, unsettled: Iterable[Accepted]) -> str:
        """What the operator is told, given all payments that are not settled; empty if nothing."""
        found = sorted(self._ids & {item.payment.id for item in unsettled})
        if not found:
            return ""
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        return f"paid, but their events are missing: {', '.join(found[:_NAMED])}{more}"
