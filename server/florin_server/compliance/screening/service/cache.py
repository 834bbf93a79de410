"""The accounts on screening lists, cached, so that a call costs no query."""

from __future__ import annotations

import asyncio

from florin_server.base.clock import Clock
from florin_server.base.notifier import Notifier
from florin_server.base.topics import Topic
from florin_server.compliance.screening import store as blocklists
from florin_server.db.engine.query import Op, operation
from florin_server.db.engine.store import Store
from florin_server.domain.screening.blocklist import BlockedAddress, Blocklist, ScreeningList

# the longest delay to notice a list that another process imported, without a notification
_REFRESH_US = 60_000_000


class ScreeningCache:
    """The imported lists as they were at most a minute ago; in this process, as they are."""

    def __init__(self, store: Store, clock: Clock, notifier: Notifier) -> None:
        self._store = store
        self._notifier = notifier
        self._clock = clock
        self._lists: list[ScreeningList] = []
        self._blocklist = Blocklist()
        self._due_us = 0
        self._load_task = asyncio.Lock()

    async def get_lists(self) -> list[ScreeningList]:
        """Return all lists by name."""
        await self._reload_if_due()
        return self._lists

    async def is_listed(self, account: str) -> bool:
        """Return True if a list has a CAIP-10 account's address; False for other text."""
        await self._reload_if_due()
        return self._blocklist.is_blocked(account)

    async def publish_change(self) -> None:
        """Notice a list that was changed in this process, for all calls from now on."""
        await self.reload()
        self._notifier.publish(Topic.SCREENING)

    async def reload(self) -> None:
        """Read the lists now."""
        async with self._load_task:
            await self._load()

    async def _reload_if_due(self) -> None:
        if self._clock.steady_us() < self._due_us:
            return
        async with self._load_task:
            if self._clock.steady_us() >= self._due_us:
                await self._load()

    async def _load(self) -> None:
        now_us = self._clock.steady_us()
        if await self._store.read(blocklists.list_blocklists()) != self._lists:
            self._lists, self._blocklist = await self._store.scan(_read_lists())
        self._due_us = now_us + _REFRESH_US


@operation
def _read_lists() -> Op[tuple[list[ScreeningList], Blocklist]]:
    lists = yield from blocklists.list_blocklists()
    addresses: list[BlockedAddress] = yield from blocklists.list_accounts()
    return lists, Blocklist.from_addresses(addresses)
