"""How soon a watcher in one process learns of what another one on the same database committed.

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
from florin_server.boot.app import app_of, core_of
from florin_server.clock import SystemClock
from florin_server.config import Settings
from florin_server.domain.payments.payment import CancelledReason
from florin_server.flows.app import App
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.where import Database
from florin_server.store.payments import payments
from florin_server.workers.hints.jobs import jobs

from tests.bench import load
from tests.bench.create import a_payment
from tests.bench.florin import rss_kib
from tests.bench.load import percentile
from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support import postgres
from tests.support.until import until

# what is watched, and how much of it changes in a second, in both processes together
FEW, MANY = sized(((1000, 100), (10_000, 1000)), ((20, 100), (40, 200)))
# the first ones find cold processes
_WARM = sized(100, 2)
# after the last change; who has heard nothing by then has lost it
_PATIENCE_S = 20


@dataclass(frozen=True, slots=True)
class Part:
    """What one of the processes does: what it watches, and what it changes how often."""

    dsn: str
    watches: list[str]
    changes: list[str]
    per_s: float
    ready: Path
    others_ready: Path


@dataclass(slots=True)
class Done:
    """When changes were committed and seen, on the clock that all processes share."""

    caused: dict[str, float] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)
    cpu_us: float = 0
    kib: float = 0


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    """Two processes with nothing in them but the store, the hub, and what tells them of changes."""
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
            Figure(f"{name}_lost", lost, "", "changes that a watcher was not told of", at_most=0),
        ]
    return figures


@contextmanager
def _database() -> Iterator[Database]:
    server = postgres.OwnServer()
    try:
        yield server.database
    finally:
        server.end()


def _measured(
    pool: ProcessPoolExecutor, database: Database, count: int, per_s: float
) -> tuple[list[float], int, list[tuple[float, float]]]:
    ids = uvloop.run(_created(database, count))
    half = count // 2
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as folder:
        one, other = Path(folder) / "one", Path(folder) / "other"
        there = Part(database.dsn, ids[:half], ids[half:], per_s / 2, one, other)
        here = Part(database.dsn, ids[half:], ids[:half], per_s / 2, other, one)
        beside = pool.submit(take_part, there)
        done = [take_part(here), beside.result(load.PATIENCE_S)]
    late_ms: list[float] = []
    for watched, changed in pairwise([*done, done[0]]):
        warm = list(changed.caused)[_WARM:]
        late_ms += [
            (watched.seen[one] - changed.caused[one]) * 1000 for one in warm if one in watched.seen
        ]
    lost = count - sum(len(one.seen) for one in done)
    return late_ms, lost, [(one.cpu_us, one.kib) for one in done]


def take_part(part: Part) -> Done:
    """Watches and changes; returns when all was seen, or too much time has passed."""
    return uvloop.run(_bounded(part))


async def _bounded(part: Part) -> Done:
    async with asyncio.timeout(load.PATIENCE_S):
        return await _take_part(part)


@asynccontextmanager
async def _joined(database: Database) -> AsyncIterator[App]:
    """One process among those that tell each other; no sweep helps it."""
    store = await open_store(database)
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as home:
        app = app_of(core_of(Settings(home=Path(home)), store, SystemClock(), []))
        tasks = [asyncio.ensure_future(job()) for job in jobs(app).values()]
        await until(lambda: app.hints.listening)
        try:
            yield app
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await store.close()


async def _created(database: Database, count: int) -> list[str]:
    store = await open_store(database)
    made = [a_payment() for _ in range(count)]
    await asyncio.gather(*(store.write(payments.create(one)) for one in made))
    await store.close()
    return [one.id for one in made]


async def _take_part(part: Part) -> Done:
    done, begun = Done(), asyncio.Semaphore(0)

    async def watcher(app: App, payment_id: str) -> None:
        async for state in app.hub.watch(payment_id):
            if state.status.is_final:
                done.seen[payment_id] = time.perf_counter()
            begun.release()

    async with _joined(Database(part.dsn)) as app:
        before_kib = rss_kib(os.getpid())
        watchers = [asyncio.create_task(watcher(app, one)) for one in part.watches]
        for _ in watchers:
            await begun.acquire()
        done.kib = (rss_kib(os.getpid()) - before_kib) / len(watchers)
        await asyncio.to_thread(part.ready.touch)
        await until(lambda: asyncio.to_thread(part.others_ready.exists), True)
        cpu = time.process_time()
        await _change(app, part, done)
        await asyncio.wait(watchers, timeout=_PATIENCE_S)
        done.cpu_us = (time.process_time() - cpu) / len(part.changes) * 1e6
        for one in watchers:
            one.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
    return done


async def _change(app: App, part: Part, done: Done) -> None:
    async def cancel(payment_id: str) -> None:
        ended = payments.cancel(payment_id, CancelledReason.BY_MERCHANT, time.time_ns() // 1000)
        changed = await app.store.write(ended)
        assert changed is not None
        done.caused[payment_id] = time.perf_counter()
        await app.changed(changed)

    async with asyncio.TaskGroup() as tasks:
        started = time.perf_counter()
        for number, one in enumerate(part.changes):
            await asyncio.sleep(max(0.0, started + number / part.per_s - time.perf_counter()))
            tasks.create_task(cancel(one))
