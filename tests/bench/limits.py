"""Measure rate limits that processes share on PostgreSQL: the cost of a call and of an exchange."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ProcessPoolExecutor
from statistics import median

from florin_server.base.clock import SystemClock
from florin_server.base.meters import Meters
from florin_server.db.engine.store import Store
from florin_server.domain.pending_counts import compute_threshold
from florin_server.limits.service import shared_limits
from florin_server.limits.service.limits import ServiceLimits
from florin_server.limits.service.shared_limits import LimitSync
from florin_server.money.open_store import open_store
from florin_server.settings import LimitSettings

from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support import postgres

ROUNDS, CALLS, KEYS = sized((9, 40_000, 10_000), (1, 200, 50))
_BURST = 600
_CALLERS = 200
# within the limit, because refused calls cost less
_CHOSEN = LimitSettings(key_per_minute=60_000_000, key_burst=_BURST)


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    """Measure on a separate server that stores its data on disk."""
    server = postgres.OwnServer()
    try:
        return asyncio.run(_measure(server))
    finally:
        server.end()


async def _measure(server: postgres.OwnServer) -> list[Figure]:
    store = await open_store(server.database)
    try:
        (alone, _), *both = (_process(store, name) for name in ("alone", "a", "b"))
        for _ in range(2):
            for _, limit_sync in both:
                await limit_sync.exchange()
        return [await _take(alone, both), *await _exchange(both)]
    finally:
        await store.close()


def _process(store: Store, name: str) -> tuple[ServiceLimits, LimitSync]:
    clock, meters = SystemClock(), Meters()
    limits = ServiceLimits(_CHOSEN, clock, meters)
    return limits, LimitSync(limits, store, clock, meters, secret=b"secret", process_id=name)


async def _take(alone: ServiceLimits, both: list[tuple[ServiceLimits, LimitSync]]) -> Figure:
    """Make equal calls with equal keys, in turn; one of the processes publishes after a round."""
    (shared, telling), (_, other) = both
    keys = [f"key {number}" for number in range(_CALLERS)]
    costs: dict[ServiceLimits, list[float]] = {alone: [], shared: []}
    told_ms = []
    for _ in range(ROUNDS):
        for limits, taken in costs.items():
            began = time.perf_counter()
            for number in range(CALLS):
                limits.count_key_call(keys[number % _CALLERS])
            taken.append((time.perf_counter() - began) / CALLS * 1e6)
        # otherwise it would count as dead
        await other.exchange()
        began = time.perf_counter()
        await telling.exchange()
        told_ms.append((time.perf_counter() - began) * 1e3)
    note = (
        f"a call that is counted, alone {median(costs[alone]):.2f} µs; medians of {ROUNDS} rounds "
        f"of {CALLS:,} calls of {_CALLERS} keys; {median(told_ms):.1f} ms to tell them after each"
    )
    return Figure("limits_shared_take_us", median(costs[shared]), "µs", note)


async def _exchange(both: list[tuple[ServiceLimits, LimitSync]]) -> list[Figure]:
    """Publish many keys at once."""
    (_, other), (limits, telling) = both
    calls = compute_threshold(_BURST, 2)
    for number in range(KEYS):
        for _ in range(calls):
            limits.count_key_call(f"busy {number}")
    await other.exchange()
    each_ms, began, cpu = [], time.perf_counter(), time.process_time()
    while any(any(limit.list_unreported()) for limit in limits.rate_limits):
        item = time.perf_counter()
        await telling.exchange()
        each_ms.append((time.perf_counter() - item) * 1e3)
    whole_ms = (time.perf_counter() - began) * 1e3
    cpu_ms = (time.process_time() - cpu) * 1e3
    note = (
        f"{KEYS:,} busy keys in {len(each_ms)} exchanges of {shared_limits.BUDGETS_MAX} at most, "
        f"{median(each_ms):.1f} ms each; {cpu_ms:.0f} ms CPU of this process in all"
    )
    return [
        Figure("limits_exchange_all_ms", whole_ms, "ms", note),
        Figure("limits_exchange_ms", median(each_ms), "ms", "one of them"),
    ]
