"""Everybody on a screening list, remembered, so that a call costs no query."""

from __future__ import annotations

import asyncio

from florin_server.clock import Clock
from florin_server.domain.screening.blocklist import Address, Blocklist, ScreeningList
from florin_server.hints import Hints
from florin_server.store.engine.query import Op, operation
from florin_server.store.engine.store import Store
from florin_server.store.screening import blocklists

# how late a list that another process imported may be noticed if nothing tells of it
_REFRESH_US = 60_000_000


class Screening:
    """The imported lists as they were at most a minute ago; in this process, as they are."""

    def __init__(self, store: Store, clock: Clock, hints: Hints) -> None:
        self._store = store
        self._hints = hints
        self._clock = clock
        self._lists: list[ScreeningList] = []
        self._listed = Blocklist()
        self._due_us = 0
        self._loading = asyncio.Lock()

    async def lists(self) -> list[ScreeningList]:
        """All lists by name."""
        await self._look()
        return self._lists

    async def lists_account(self, account: str) -> bool:
        """True if a list has a CAIP-10 account's address; False for text that is no account."""
        await self._look()
        return self._listed.blocks(account)

    async def changed(self) -> None:
        """A list was changed in this process; what is asked from now on knows it."""
        await self.reload()
        self._hints.remembered()

    async def reload(self) -> None:
        """Looks at the lists now."""
        async with self._loading:
            await self._load()

    async def _look(self) -> None:
        if self._clock.steady_us() < self._due_us:
            return
        async with self._loading:
            if self._clock.steady_us() >= self._due_us:
                await self._load()

    async def _load(self) -> None:
        now_us = self._clock.steady_us()
        if await self._store.read(blocklists.lists()) != self._lists:
            self._lists, self._listed = await self._store.survey(_everything())
        self._due_us = now_us + _REFRESH_US


@operation
def _everything() -> Op[tuple[list[ScreeningList], Blocklist]]:
    lists = yield from blocklists.lists()
    found: list[Address] = yield from blocklists.accounts()
    return lists, Blocklist.of(found)
