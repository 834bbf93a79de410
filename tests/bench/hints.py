"""Measure how soon a process sees what another one on the same database committed.

Each of two processes watches one half of the payments and changes the other half.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import uvloop
from florin_server.app.app import build_app, build_core
from florin_server.app.core import App
from florin_server.app.process_bus.jobs import get_jobs
from florin_server.base.clock import SystemClock
from florin_server.db.engine.where import DatabaseConfig
from florin_server.domain.payments.payment import CancellationReason
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import payments
from florin_server.settings import Settings

from tests.bench import load
from tests.bench.create import a_payment
from tests.bench.florin import rss_kib
from tests.bench.load import percentile
from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support import postgres
from tests.support.until import wait_until

# watched payments, and changes a second, of both processes together
FEW, MANY = sized(((1000, 100), (10_000, 1000)), ((20, 100), (40, 200)))
# the first changes reach cold processes
_WARM = sized(100, 2)
# after the last change; a change not received by then is lost
_PATIENCE_S = 20


@dataclass(frozen=True, slots=True)
class Part:
    """The task of one process: what it watches, and what it changes at which rate."""

    dsn: str
    watches: list[str]
    changes: list[str]
    per_s: float
    ready: Path
    others_ready: Path


@dataclass(slots=True)
class Done:
    """The times of commits and receipts, on the clock that all processes share."""

    caused: dict[str, float] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)
    cpu_us: float = 0
    kib: float = 0


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    """Run two processes with only the store, the feed, and the bus."""
    figures: list[Figure] = []
    for name, (count, per_s) in (("hint", FEW), ("hint_crowd", MANY)):
        with _database() as database:
            late_ms, lost, both = _measured(pool, database, count, per_s)
        cpu_us, kib = (sum(values) / 2 for values in zip(*both, strict=True))
        note = (
            f"from the return of the commit in one process to the watcher's task in the other, "
            f"{count:,} watchers, {per_s:,} changes/s, half in each; {cpu_us:.0f} µs CPU a change, "
            f"watchers included; a watcher has {kib:.1f} KiB"
        )
        figures += [
            Figure(f"{name}_p50_ms", percentile(late_ms, 50), "ms", note, at_most=5),
            Figure(f"{name}_p99_ms", percentile(late_ms, 99), "ms", "the same"),
            Figure(f"{name}_lost", lost, "", "changes that a watcher did not receive", at_most=0),
        ]
    return figures


@contextmanager
def _database() -> Iterator[DatabaseConfig]:
    server = postgres.OwnServer()
    try:
        yield server.database
    finally:
        server.end()


def _measured(
    pool: ProcessPoolExecutor, database: DatabaseConfig, count: int, per_s: float
) -> tuple[list[float], int, list[tuple[float, float]]]:
    ids = uvloop.run(_created(database, count))
    half = count // 2
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as folder:
        path, other = Path(folder) / "one", Path(folder) / "other"
        there = Part(database.dsn, ids[:half], ids[half:], per_s / 2, path, other)
        here = Part(database.dsn, ids[half:], ids[:half], per_s / 2, other, path)
        beside = pool.submit(take_part, there)
        done = [take_part(here), beside.result(load.PATIENCE_S)]
    late_ms: list[float] = []
    for watched, changed in pairwise([*done, done[0]]):
        warm = list(changed.caused)[_WARM:]
        late_ms += [
            (watched.seen[text] - changed.caused[text]) * 1000
            for text in warm
            if text in watched.seen
        ]
    lost = count - sum(len(item.seen) for item in done)
    return late_ms, lost, [(item.cpu_us, item.kib) for item in done]


def take_part(part: Part) -> Done:
    """Watch and change; return when everything was received, or after a timeout."""
    return uvloop.run(_bounded(part))


async def _bounded(part: Part) -> Done:
    async with asyncio.timeout(load.PATIENCE_S):
        return await _take_part(part)


@asynccontextmanager
async def _joined(database: DatabaseConfig) -> AsyncIterator[App]:
    """Open one process on the shared bus, without a sweep to help it."""
    store = await open_store(database)
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as home:
        app = build_app(build_core(Settings(home=Path(home)), store, SystemClock(), []))
        tasks = [asyncio.ensure_future(job()) for job in get_jobs(app).values()]
        await wait_until(lambda: app.notifier.bus.is_listening)
        try:
            yield app
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await store.close()


async def _created(database: DatabaseConfig, count: int) -> list[str]:
    store = await open_store(database)
    created_payments = [a_payment() for _ in range(count)]
    await asyncio.gather(*(store.write(payments.create(payment)) for payment in created_payments))
    await store.close()
    return [payment.id for payment in created_payments]


async def _take_part(part: Part) -> Done:
    done, started = Done(), asyncio.Semaphore(0)

    async def watcher(app: App, payment_id: str) -> None:
        async for state in app.notifier.payments.watch(payment_id):
            if state.status.is_final:
                done.seen[payment_id] = time.perf_counter()
            started.release()

    async with _joined(DatabaseConfig(part.dsn)) as app:
        before_kib = rss_kib(os.getpid())
        watchers = [asyncio.create_task(watcher(app, watch)) for watch in part.watches]
        for _ in watchers:
            await started.acquire()
        done.kib = (rss_kib(os.getpid()) - before_kib) / len(watchers)
        await asyncio.to_thread(part.ready.touch)
        await wait_until(lambda: asyncio.to_thread(part.others_ready.exists), True)
        cpu = time.process_time()
        await _change(app, part, done)
        await asyncio.wait(watchers, timeout=_PATIENCE_S)
        done.cpu_us = (time.process_time() - cpu) / len(part.changes) * 1e6
        for task in watchers:
            task.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
    return done


async def _change(app: App, part: Part, done: Done) -> None:
    async def cancel(payment_id: str) -> None:
        ended = payments.cancel(payment_id, CancellationReason.BY_MERCHANT, time.time_ns() // 1000)
        changed = await app.store.write(ended)
        assert changed is not None
        done.caused[payment_id] = time.perf_counter()
        app.notifier.publish_payment(changed)

    async with asyncio.TaskGroup() as tasks:
        started = time.perf_counter()
        for number, change in enumerate(part.changes):
            await asyncio.sleep(max(0.0, started + number / part.per_s - time.perf_counter()))
            tasks.create_task(cancel(change))
