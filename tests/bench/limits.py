"""Limits that processes on one PostgreSQL keep together: what a call and an exchange cost."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ProcessPoolExecutor
from statistics import median

from florin_server.clock import SystemClock
from florin_server.config import LimitSettings
from florin_server.domain.tally import share_of
from florin_server.flows.limits import sharing
from florin_server.flows.limits.limits import Limits
from florin_server.flows.limits.sharing import Sharing
from florin_server.meters import Meters
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.store import Store

from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support import postgres

ROUNDS, CALLS, KEYS = sized((9, 40_000, 10_000), (1, 200, 50))
_BURST = 600
_CALLERS = 200
# within what is let through: who is refused costs less
_CHOSEN = LimitSettings(key_per_minute=60_000_000, key_burst=_BURST)


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    """A server of its own, which keeps what it is given on its disk."""
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
            for _, one in both:
                await one.exchange()
        return [await _take(alone, both), *await _exchange(both)]
    finally:
        await store.close()


def _process(store: Store, name: str) -> tuple[Limits, Sharing]:
    clock, meters = SystemClock(), Meters()
    limits = Limits(_CHOSEN, clock, meters)
    return limits, Sharing(limits, store, clock, meters, secret=b"secret", process=name)


async def _take(alone: Limits, both: list[tuple[Limits, Sharing]]) -> Figure:
    """The same calls of the same keys, turn by turn; one of two processes tells after each."""
    (shared, telling), (_, other) = both
    keys = [f"key {number}" for number in range(_CALLERS)]
    costs: dict[Limits, list[float]] = {alone: [], shared: []}
    told_ms = []
    for _ in range(ROUNDS):
        for limits, taken in costs.items():
            began = time.perf_counter()
            for number in range(CALLS):
                limits.key(keys[number % _CALLERS])
            taken.append((time.perf_counter() - began) / CALLS * 1e6)
        # or it would be taken for dead
        await other.exchange()
        began = time.perf_counter()
        await telling.exchange()
        told_ms.append((time.perf_counter() - began) * 1e3)
    note = (
        f"a call that is counted, alone {median(costs[alone]):.2f} µs; medians of {ROUNDS} rounds "
        f"of {CALLS:,} calls of {_CALLERS} keys; {median(told_ms):.1f} ms to tell them after each"
    )
    return Figure("limits_shared_take_us", median(costs[shared]), "µs", note)


async def _exchange(both: list[tuple[Limits, Sharing]]) -> list[Figure]:
    """So many keys that have to be told at once."""
    (_, other), (limits, telling) = both
    calls = share_of(_BURST, 2)
    for number in range(KEYS):
        for _ in range(calls):
            limits.key(f"busy {number}")
    await other.exchange()
    each_ms, began, cpu = [], time.perf_counter(), time.process_time()
    while any(any(limit.untold()) for limit in limits.rates):
        one = time.perf_counter()
        await telling.exchange()
        each_ms.append((time.perf_counter() - one) * 1e3)
    whole_ms = (time.perf_counter() - began) * 1e3
    cpu_ms = (time.process_time() - cpu) * 1e3
    note = (
        f"{KEYS:,} busy keys in {len(each_ms)} exchanges of {sharing.BUDGETS_MAX} at most, "
        f"{median(each_ms):.1f} ms each; {cpu_ms:.0f} ms CPU of this process in all"
    )
    return [
        Figure("limits_exchange_all_ms", whole_ms, "ms", note),
        Figure("limits_exchange_ms", median(each_ms), "ms", "one of them"),
    ]
