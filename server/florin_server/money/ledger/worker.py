"""Opens the ledger of a chain's wallets, and compares it with the chain now and then."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from florin_server.base.clock import sleep_remaining
from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import StoreUnavailable
from florin_server.domain.errors import ApiError
from florin_server.money.ledger.service import books
from florin_server.operations.context import QuarantineContext, WorkerContext
from florin_server.rails.chain_state import WalletBalance
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable
from florin_server.settings.context import SettingsContext


class _Context(
    ChainContext,
    EventContext,
    QuarantineContext,
    SettingsContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# nothing is sent before the ledger is open
_RETRY_S = 1.0
# wallets whose ledger waits for work in progress: first and longest pause before a retry
_RECHECK_S, _RECHECK_MAX_S = 5.0, 60.0


class BookKeeper:
    """Maintains the ledger of one chain; nothing is sent there before it is open."""

    def __init__(self, app: _Context, rail: Rail) -> None:
        self._app = app
        self._rail = rail
        self._state = app.chains[rail.chain_id]
        self._reported = ""  # what keeps the ledger from being opened
        self._recheck_s = 0.0  # pause while the ledger of some wallets is not open; 0 if all are

    @property
    def chain_id(self) -> str:
        """Return the CAIP-2 id of its chain."""
        return self._rail.chain_id

    async def run(self) -> None:
        """Run until canceled."""
        await self._app.quarantine.load()
        while True:
            looked_us = self._app.clock.now_us()
            if await self._record_opening_balances():
                await self._reconcile()
                await sleep_remaining(self._app.clock, self._get_pause_s(), looked_us)
            else:
                # the chain runs on the machine's clock, not on the service's
                await asyncio.sleep(_RETRY_S)

    def _get_pause_s(self) -> float:
        """Return the seconds until the next check; fewer while the ledger of a wallet is not open.

        Until then its balance is not compared, and a shortage raises no alarm.
        """
        longest = self._app.settings.books_check_s
        return min(longest, self._recheck_s) if self._recheck_s else longest

    async def _record_opening_balances(self) -> bool:
        """Open what can be opened; return False if the chain did not answer.

        On a chain that was used before, work in progress is indistinguishable from the balance, so
        those wallets are opened later, and send meanwhile.
        """
        try:
            complete = await books.record_opening_balances(self._app, self._rail)
        except (RailUnavailable, ApiError, StoreUnavailable) as error:
            if str(error) != self._reported:
                self._reported = str(error)
                _log.warning("the ledger of %s waits: %s", self._rail.chain_id, error)
            return False
        self._reported = ""
        longer_s = min(_RECHECK_MAX_S, self._recheck_s * 2 or _RECHECK_S)
        self._recheck_s = 0.0 if complete else longer_s
        self._state.has_opening_balances = True
        self._app.notifier.notify(Topic.SETTLEMENT, self._rail.chain_id)
        self._app.notifier.notify(Topic.PAYOUTS_DUE)
        return True

    async def _reconcile(self) -> None:
        """Raise the alarm for shortages of wallets."""
        try:
            reconciliation = await books.reconcile(self._app, [self._rail])
        except (ApiError, StoreUnavailable) as error:
            _log.warning(
                "the ledger of %s could not be compared with the chain: %s",
                self._rail.chain_id,
                error,
            )
            return
        if self._rail.chain_id in reconciliation.read_failures:
            return
        self._state.balances = [
            WalletBalance(*line.wallet, line.chain_balance, line.booked_balance)
            for line in reconciliation.lines
            if line.chain_balance is not None
        ]
        self._state.reconciled_at_us = self._app.clock.now_us()
        problem = "; ".join(books.describe(line) for line in reconciliation.list_missing())
        if problem and problem != self._state.shortfall:
            _log.error("%s", problem)
        self._state.shortfall = problem
