"""Processes that share limits over one store, each with what is its own, and clocks that stand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from florin_server.clock import TestClock
from florin_server.config import LimitSettings
from florin_server.domain.errors import FlorinError
from florin_server.flows.limits.limits import Limits
from florin_server.flows.limits.sharing import Sharing
from florin_server.meters import Meters
from florin_server.store.engine.store import Fault, Store

from tests.support import postgres
from tests.support.store_kit import NOW_US, opened

SECRET = b"a secret of the installation"


@dataclass
class Process:
    """One process, which nobody beats for: tests say when it exchanges."""

    limits: Limits
    sharing: Sharing
    clock: TestClock
    store: Store
    meters: Meters

    def takes(self, calls: int, key: str = "key_1") -> int:
        """How many of so many calls of a key were let through."""
        return sum(quota.admitted for _ in range(calls) if (quota := self.limits.key(key)))

    def fails(self, address: str) -> bool:
        """True if one more failed credential of an address is too many."""
        try:
            self.limits.failed(f"ipv4:{address}:1")
        except FlorinError:
            return True
        return False

    async def exchange(self) -> None:
        await self.sharing.exchange()


@asynccontextmanager
async def processes(
    engine: str,
    folder: Path,
    count: int = 2,
    *,
    ahead_s: float = 0,
    fault: Fault | None = None,
    **limits: int,
) -> AsyncIterator[list[Process]]:
    """So many, who know of each other; on SQLite they have one store object.

    The clock of each is that much ahead of the one before.
    """
    async with AsyncExitStack() as stack:
        stores = [
            await stack.enter_async_context(opened(engine, folder, fault=fault))
            for _ in range(1 if engine == postgres.SQLITE else count)
        ]
        found = [
            process(stores[number % len(stores)], f"process {number}", number * ahead_s, **limits)
            for number in range(count)
        ]
        for _ in range(2):
            for one in found:
                await one.exchange()
        yield found


def process(store: Store, name: str, ahead_s: float = 0, **chosen: int) -> Process:
    clock, meters = TestClock(NOW_US), Meters()
    clock.advance(ahead_s)
    limits = Limits(LimitSettings(**chosen), clock, meters)
    sharing = Sharing(limits, store, clock, meters, secret=SECRET, process=name)
    return Process(limits, sharing, clock, store, meters)


def advance(found: list[Process], seconds: float) -> None:
    for one in found:
        one.clock.advance(seconds)
