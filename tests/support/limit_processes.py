"""Processes that share limits over one store, each with its own clock, which is stopped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from florin_server.base.clock import TestClock
from florin_server.base.meters import Meters
from florin_server.db.engine.store import FaultHook, Store
from florin_server.domain.errors import ApiError
from florin_server.limits.service.limits import ServiceLimits
from florin_server.limits.service.shared_limits import LimitSync
from florin_server.settings import LimitSettings

from tests.support import postgres
from tests.support.store_factories import NOW_US, open_engine_store

SECRET = b"a secret of the installation"


@dataclass
class LimitProcess:
    """One process without a heartbeat: tests decide when it exchanges."""

    limits: ServiceLimits
    sharing: LimitSync
    clock: TestClock
    store: Store
    meters: Meters

    def count_allowed(self, calls: int, key: str = "key_1") -> int:
        """Return how many of `calls` calls of a key were admitted."""
        return sum(
            quota.is_admitted for _ in range(calls) if (quota := self.limits.count_key_call(key))
        )

    def is_blocked_after_failure(self, address: str) -> bool:
        """Return True if one more failed credential of an address exceeds the limit."""
        try:
            self.limits.count_failure(f"ipv4:{address}:1")
        except ApiError:
            return True
        return False

    async def exchange(self) -> None:
        await self.sharing.exchange()


@asynccontextmanager
async def open_processes(
    engine: str,
    folder: Path,
    count: int = 2,
    *,
    ahead_s: float = 0,
    fault: FaultHook | None = None,
    **limits: int,
) -> AsyncIterator[list[LimitProcess]]:
    """Open `count` processes that know each other; on SQLite they share one store object.

    Each clock is `ahead_s` ahead of the one before.
    """
    async with AsyncExitStack() as stack:
        stores = [
            await stack.enter_async_context(open_engine_store(engine, folder, fault_hook=fault))
            for _ in range(1 if engine == postgres.SQLITE else count)
        ]
        processes = [
            make_process(
                stores[number % len(stores)], f"process {number}", number * ahead_s, **limits
            )
            for number in range(count)
        ]
        for _ in range(2):
            for process in processes:
                await process.exchange()
        yield processes


def make_process(store: Store, name: str, ahead_s: float = 0, **chosen: int) -> LimitProcess:
    clock, meters = TestClock(NOW_US), Meters()
    clock.advance(ahead_s)
    limits = ServiceLimits(LimitSettings(**chosen), clock, meters)
    sharing = LimitSync(limits, store, clock, meters, secret=SECRET, process_id=name)
    return LimitProcess(limits, sharing, clock, store, meters)


def advance_clocks(processes: list[LimitProcess], seconds: float) -> None:
    for process in processes:
        process.clock.advance(seconds)
