"""Begins the books of a chain's wallets, and compares them with the chain now and then."""

from __future__ import annotations

import asyncio
import logging

from florin_server.clock import rest
from florin_server.domain.errors import FlorinError
from florin_server.flows.app import App, Wallet
from florin_server.flows.ledger import books
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable
from florin_server.store.engine.query import StoreUnavailable

_log = logging.getLogger(__name__)

# nothing is sent before the books begin
_RETRY_S = 1.0
# wallets whose books wait for work under way: first and longest pause before the next attempt
_WAITING_S, _WAITING_MAX_S = 5.0, 60.0


class BookKeeper:
    """Looks after the books of one chain; nothing is sent there before they have begun."""

    def __init__(self, app: App, rail: Rail) -> None:
        self._app = app
        self._rail = rail
        self._state = app.chains[rail.chain_id]
        self._told = ""  # what keeps the books from beginning
        self._waiting_s = 0.0  # pause while books of some wallets have not begun; 0 if all have

    @property
    def chain_id(self) -> str:
        """CAIP-2 of the chain whose books it keeps."""
        return self._rail.chain_id

    async def run(self) -> None:
        """Works until cancelled."""
        await self._app.quarantine.load()
        while True:
            looked_us = self._app.clock.now_us()
            if await self._begin():
                await self._compare()
                await rest(self._app.clock, self._pause_s(), looked_us)
            else:
                # the chain's pace is the machine's, not the service's clock
                await asyncio.sleep(_RETRY_S)

    def _pause_s(self) -> float:
        """Return the seconds until the next look; fewer while books of a wallet have not begun.

        Until then its balance is compared with nothing, and what it lacks raises no alarm.
        """
        longest = self._app.settings.books_check_s
        return min(longest, self._waiting_s) if self._waiting_s else longest

    async def _begin(self) -> bool:
        """Begins what can begin; False if the chain did not tell.

        What is under way on a chain that was used before cannot be told from what was there, so
        those wallets begin later, and are sent from meanwhile.
        """
        try:
            complete = await books.begin(self._app, self._rail)
        except (RailUnavailable, FlorinError, StoreUnavailable) as error:
            if str(error) != self._told:
                self._told = str(error)
                _log.warning("the books of %s wait: %s", self._rail.chain_id, error)
            return False
        self._told = ""
        longer_s = min(_WAITING_MAX_S, self._waiting_s * 2 or _WAITING_S)
        self._waiting_s = 0.0 if complete else longer_s
        self._state.books_begun = True
        for worker in (self._app.settlers, self._app.payout_workers):
            if self._rail.chain_id in worker:
                worker[self._rail.chain_id].wake()
        return True

    async def _compare(self) -> None:
        """Raises the alarm for what wallets lack."""
        try:
            found = await books.compare(self._app, [self._rail])
        except (FlorinError, StoreUnavailable) as error:
            _log.warning("the books of %s are not compared: %s", self._rail.chain_id, error)
            return
        if self._rail.chain_id in found.unread:
            return
        self._state.wallets = [
            Wallet(*one.place, one.held, one.booked) for one in found.lines if one.held is not None
        ]
        self._state.compared_at_us = self._app.clock.now_us()
        problem = "; ".join(books.describe(one) for one in found.missing())
        if problem and problem != self._state.lacking:
            _log.error("%s", problem)
        self._state.lacking = problem
