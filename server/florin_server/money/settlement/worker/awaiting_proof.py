"""Payments that the settlement contract reports as paid, while no node returns their events."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.rails.roles import DirectSettlementReader

_log = logging.getLogger(__name__)

# named in a chain's health; all are in the log
_NAMED_MAX = 3


class AwaitingProof:
    """Such payments of one chain. They keep their status until their events are found.

    `direct` says what wallets sent, `find_events` searches the events of items, `has_event` says
    whether an item's event was found.
    """

    def __init__(
        self,
        direct: DirectSettlementReader | None,
        find_events: Callable[[Sequence[SettlementItem]], Awaitable[None]],
        has_event: Callable[[SettlementItem], bool],
    ) -> None:
        self._direct = direct
        self._find_events = find_events
        self._has_event = has_event
        self._ids: set[str] = set()

    async def contains(self, item: SettlementItem) -> bool:
        """Return True if the chain reports an item as paid by a wallet: it must have an event."""
        direct, option = self._direct, item.option
        if direct is None or not direct.is_direct(option) or not await direct.is_paid(option):
            return False
        await self._find_events([item])
        if self._has_event(item):
            self.remove([item.payment.id])
        elif item.payment.id not in self._ids:
            self._ids.add(item.payment.id)
            text = (
                "payment %s is paid according to the contract, but no node returns its transaction"
            )
            _log.error(text, item.payment.id)
        return True

    def remove(self, payment_ids: Iterable[str]) -> None:
        """Forget payments whose events were found, or that other evidence ended."""
        self._ids.difference_update(payment_ids)

    def describe_problem(self, unsettled_items: Iterable[SettlementItem]) -> str:
        """Return the operator's text, given all payments that are not settled; empty if nothing."""
        payment_ids = sorted(self._ids & {item.payment.id for item in unsettled_items})
        if not payment_ids:
            return ""
        more = f" and {len(payment_ids) - _NAMED_MAX} more" if len(payment_ids) > _NAMED_MAX else ""
        return (
            f"payments paid whose events are missing: {', '.join(payment_ids[:_NAMED_MAX])}{more}"
        )
