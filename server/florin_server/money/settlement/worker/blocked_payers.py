"""Accepted payments that are not sent, because their payer was blocked after the confirm."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.money.settlement.worker.deposit_payers import is_payer_blocked
from florin_server.settings.context import SettingsContext


class _Context(ScreeningContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)


class BlockedPayers:
    """The held payments of one chain; they end when their authorization lapses, like others."""

    def __init__(self, app: _Context) -> None:
        self._app = app
        self._ids: set[str] = set()

    async def partition(
        self, items: Sequence[SettlementItem]
    ) -> tuple[list[SettlementItem], list[SettlementItem]]:
        """Return the payments that can be sent, and those that are held from now on."""
        free: list[SettlementItem] = []
        held: list[SettlementItem] = []
        for item in items:
            (held if await self.is_blocked(item) else free).append(item)
        ids = {item.payment.id for item in held}
        for payment_id in ids - self._ids:
            _log.warning("payment %s is not sent: its payer is blocked", payment_id)
        self.remove(item.payment.id for item in free)
        self._ids |= ids
        return free, held

    def remove(self, payment_ids: Iterable[str]) -> None:
        """Stop holding payments: they can be sent again, or have ended."""
        self._ids.difference_update(payment_ids)

    async def is_blocked(self, item: SettlementItem) -> bool:
        """Return True if a payment's payer is blocked now."""
        return await is_payer_blocked(self._app, item.option)

    def describe_problem(self, unsettled_items: Iterable[SettlementItem]) -> str:
        """Return the operator's text, given all payments that are not settled; empty if nothing."""
        count = sum(item.payment.id in self._ids for item in unsettled_items)
        return f"payments not sent because their payers are blocked: {count}" if count else ""
