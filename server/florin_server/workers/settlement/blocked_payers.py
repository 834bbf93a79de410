"""Accepted payments that are not sent, because their payer was blocked after the confirm."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from florin_server.domain.settlement.chain_txs import Accepted
from florin_server.flows.app import Core
from florin_server.flows.screening.check import is_blocked

_log = logging.getLogger(__name__)


class BlockedPayers:
    """Which payments of one chain are held; they end when their authorization lapses, as any."""

    def __init__(self, app: Core) -> None:
        self._app = app
        self._ids: set[str] = set()

    async def sort(self, items: Sequence[Accepted]) -> tuple[list[Accepted], list[Accepted]]:
        """Those that may be sent, and those that are held from now on."""
        free: list[Accepted] = []
        held: list[Accepted] = []
        for item in items:
            (held if await self.blocks(item) else free).append(item)
        ids = {item.payment.id for item in held}
        for payment_id in ids - self._ids:
            _log.warning("payment %s is not sent: its payer is blocked", payment_id)
        self.forget(item.payment.id for item in free)
        self._ids |= ids
        return free, held

    def forget(self, payment_ids: Iterable[str]) -> None:
        """These are held no longer: they may be sent again, or have ended."""
        self._ids.difference_update(payment_ids)

    async def blocks(self, item: Accepted) -> bool:
        """True if a payment's payer is blocked now."""
        return await is_blocked(self._app, item.option.payer)

    def problem(self, unsettled: Iterable[Accepted]) -> str:
        """What the operator is told, given all payments that are not settled; empty if nothing."""
        count = sum(item.payment.id in self._ids for item in unsettled)
        return f"payments not sent because their payers are blocked: {count}" if count else ""
