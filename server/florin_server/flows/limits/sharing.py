"""Keeps limits together with other processes on the same store, while each decides at once.

A process tells the others once it took a quarter of its part of a budget, and learns then what all
took. No call waits for that: between two exchanges each goes by what it knows. So over any time all
processes together let through what one alone would, and a burst more at most for each process
beyond the first, in the moment before they hear of each other; it is owed, and paid by waiting.
What the store does not take now is told later.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from heapq import nlargest
from typing import NamedTuple

from florin_server.clock import Clock, first_of
from florin_server.domain.errors import FlorinError
from florin_server.flows.limits.limit import Limit, Taken
from florin_server.flows.limits.limits import Limits
from florin_server.flows.limits.places import Places
from florin_server.meters import Meters
from florin_server.store.engine.query import StoreError
from florin_server.store.engine.store import Store
from florin_server.store.limits import sharing
from florin_server.store.limits.sharing import Use, Whole

_log = logging.getLogger(__name__)

# a process says so often that it lives; whoever uses up its part is told of earlier
_BEAT_S = 1.0
# but no exchange begins earlier after another: they are bounded, whatever callers do
_PAUSE_S = 0.02
# in one exchange, those that took most of their parts first
BUDGETS_MAX = 500
# that one process may keep in the store at a time: who makes up keys makes up no rows beyond
_ROWS_MAX = 10_000
# old rows are deleted so often, so many at a time
_FORGET_S, _FORGET_MAX = 10.0, 1_000
_NAME_BYTES = 16


class _Budget(NamedTuple):
    """One budget of an exchange; `key` is its name in the store."""

    limit: Limit
    name: str
    key: str
    taken: Taken


class _Held(NamedTuple):
    """What is told of the places of one kind."""

    places: Places
    changes: Mapping[str, int]


class Sharing:
    """What one process tells the others of its limits, under a name of its own.

    `processes` are as many as were alive at the last exchange, `exchanged_us` is when that was (0:
    never), `rows` how many budgets of this process count in the store.
    """

    def __init__(
        self,
        limits: Limits,
        store: Store,
        clock: Clock,
        meters: Meters,
        *,
        secret: bytes,
        process: str,
    ) -> None:
        self.process = process
        self.processes = 1
        self.exchanged_us = 0
        self._limits = limits
        self._store = store
        self._clock = clock
        self._meters = meters
        self._secret = secret
        # how far the clock that is farthest ahead is before ours
        self._ahead_us = 0
        # when budgets in the store are whole again, by kind and name
        self._rows: dict[tuple[str, str], int] = {}
        self._forgot_us = clock.steady_us()
        self._due = asyncio.Event()
        self._all: tuple[Limit | Places, ...] = (*limits.rates, *limits.held.places)
        for one in self._all:
            one.due = self._due.set

    @property
    def rows(self) -> int:
        """How many budgets of this process count in the store."""
        return len(self._rows)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Exchanges as long as one is inside; others know of this process from the beginning."""
        await self.exchange()
        task = asyncio.create_task(self._run(), name="limits")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            # otherwise they count what it held until they miss it
            with suppress(StoreError, FlorinError):
                await self._store.write(sharing.leave(self.process))

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(_PAUSE_S)
            # others are to be told something, or that this process lives
            await first_of(self._due.wait(), self._clock.sleep(_BEAT_S))
            try:
                await self.exchange()
            except Exception:  # noqa: BLE001  (calls are answered without it)
                # each process goes by what it knows, as in an outage of the store
                _log.exception("limits are not shared")

    async def exchange(self) -> None:
        """Tells the others, and learns from them; nothing is lost if the store does not work."""
        self._due.clear()
        asked_us = self._clock.steady_us()
        budgets = self._budgets(asked_us)
        holds = [_Held(places, places.changes()) for places in self._limits.held.places]
        op = sharing.exchange(
            self.process,
            asked_us + self._ahead_us,
            [Use(one.key, *one.taken[1:]) for one in budgets],
            {self._key(one.places.kind, key): n for one in holds for key, n in one.changes.items()},
            [self._key(one.places.kind, key) for one in holds for key in one.places.shared()],
        )
        try:
            whole = await self._store.write(op)
        except (StoreError, FlorinError) as error:
            self._meters.exchange("failed")
            _log.debug("limits are not shared at the moment: %s", error)
            return
        self._meters.exchange("done")
        self._learn(whole, asked_us, budgets, holds)
        with suppress(StoreError, FlorinError):
            await self._forget(whole.now_us)

    def _budgets(self, now_us: int) -> list[_Budget]:
        """Those of which most is to be told; new ones only while there is room for their rows."""
        if len(self._rows) >= _ROWS_MAX:
            self._make_room(now_us + self._ahead_us)
        rates, room = self._limits.rates, len(self._rows) < _ROWS_MAX
        most = nlargest(
            BUDGETS_MAX,
            (
                (much, place, name)
                for place, limit in enumerate(rates)
                for much, name in limit.untold()
                if room or (limit.kind, name) in self._rows
            ),
        )
        return [
            _Budget(limit, name, self._key(limit.kind, name), limit.taken(name, now_us))
            for limit, name in ((rates[place], name) for _, place, name in most)
        ]

    def _learn(
        self, whole: Whole, asked_us: int, budgets: Sequence[_Budget], holds: Sequence[_Held]
    ) -> None:
        self._ahead_us = whole.now_us - asked_us
        self.exchanged_us = self._clock.steady_us()
        for one in budgets:
            ahead_us = whole.ahead_us[one.key]
            one.limit.told(one.name, one.taken.calls, asked_us + ahead_us)
            self._rows[one.limit.kind, one.name] = whole.now_us + ahead_us
        for places, changes in holds:
            places.told(changes, known=whole.known)
            names = ((key, self._key(places.kind, key)) for key in places.shared())
            places.learn({key: whole.held[name] for key, name in names if name in whole.held})
        self.processes = whole.processes
        for each in self._all:
            each.among(whole.processes)

    def _key(self, kind: str, name: str) -> str:
        """What a budget is called in the store: nobody reads there who calls."""
        text = f"{kind} {name}".encode()
        return hmac.digest(self._secret, text, "sha256")[:_NAME_BYTES].hex()

    async def _forget(self, now_us: int) -> None:
        """Deletes old rows, so many that there are never many."""
        if now_us < self._forgot_us + _FORGET_S * 1_000_000:
            return
        self._make_room(now_us)
        if await self._store.write(sharing.forget_whole(now_us, _FORGET_MAX)) < _FORGET_MAX:
            self._forgot_us = now_us

    def _make_room(self, now_us: int) -> None:
        self._rows = {one: at_us for one, at_us in self._rows.items() if at_us > now_us}
