"""Opens the accounts in which receivers hold tokens, before anybody pays into them.

Each is written down as done together with the transaction that opens it, which is journaled like
any other; how many a day is bounded, for whoever owns an account may close it and keep its rent.
"""

from __future__ import annotations

import logging

from florin_server.domain.settlement import Place
from florin_server.flows.app import App
from florin_server.flows.workers.lane import Lane
from florin_server.rails.base import Rail, RailUnavailable, Signed
from florin_server.store import receiving

_log = logging.getLogger(__name__)

_DAY_US = 86_400 * 1_000_000
# others may have registered something, and a new day has room again
_LOOK_US = 600 * 1_000_000


class ReceivingDesk:
    """Works off what is wanted on one chain."""

    def __init__(self, app: App, rail: Rail) -> None:
        self._app = app
        self._rail = rail
        self._look_at_us = 0
        self._started = False

    async def turn(self, lane: Lane) -> None:
        """Opens what one transaction can, if anything is wanted and the day has room.

        What cannot be done now waits: payments are not to be kept by it.
        """
        try:
            await self._turn(lane)
        except RailUnavailable as error:
            _log.warning("%s: token accounts wait to be opened: %s", self._rail.chain_id, error)

    async def _turn(self, lane: Lane) -> None:
        work, now_us = self._rail.receiving, self._app.clock.now_us()
        if work is None or not work.a_day:
            return
        told = self._rail.chain_id in self._app.registered
        if not told and now_us < self._look_at_us:
            return
        self._app.registered.discard(self._rail.chain_id)
        self._look_at_us = now_us + _LOOK_US
        await self._want_own()
        store, chain_id, day = self._app.store, self._rail.chain_id, now_us // _DAY_US
        left = work.a_day - await store.read(receiving.opened(chain_id, day))
        wanted = await store.read(receiving.wanted(chain_id, min(work.at_once, max(0, left))))
        if not wanted:
            return
        missing = await work.missing(wanted)
        if not missing:
            await store.write(receiving.settle(chain_id, wanted, day, 0))
        else:

            async def sign(nonce: int) -> Signed:  # noqa: ARG001
                return await work.sign(missing)

            await lane.send([], sign, lambda: receiving.settle(chain_id, wanted, day, len(missing)))
            _log.info("%s: %d token accounts are opened", chain_id, len(missing))
        # there may be more
        self._app.registered.add(chain_id)

    async def _want_own(self) -> None:
        """The treasury receives every token."""
        work = self._rail.receiving
        if self._started or work is None or not self._rail.assets:
            return
        for asset in self._rail.assets:
            if work.needed(place := Place(asset, self._rail.treasury)):
                await self._app.store.write(receiving.want(place))
        self._started = True
