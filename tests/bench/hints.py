"""How soon a watcher in one process learns of what another one on the same database committed."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

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
from tests.bench.load import percentile
from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support import postgres
from tests.support.until import until

_T = TypeVar("_T")

PAYMENTS, PER_S = sized((1000, 100), (20, 100))
# the first ones find cold processes
_WARM = sized(100, 2)


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    """Two processes with nothing in them but the store, the hub, and what tells them of changes."""
    server = postgres.OwnServer()
    try:
        with tempfile.TemporaryDirectory(prefix="florin-bench-") as folder:
            ready = Path(folder) / "ready"
            ids = uvloop.run(_created(server.database))
            seen = pool.submit(watch, server.database.dsn, ids, ready)
            change = _change(server.database, ids, ready, seen)
            caused, found, cpu_us = uvloop.run(_bounded(change))
    finally:
        server.end()
    late_ms = [(found[one] - caused[one]) * 1000 for one in ids[_WARM:]]
    note = (
        f"from the return of the commit in one process to the watcher's task in the other, "
        f"{PAYMENTS:,} watchers, {PER_S} changes/s; {cpu_us:.0f} µs CPU for each in the process "
        "that changes, its commit included"
    )
    return [
        Figure("hint_p50_ms", percentile(late_ms, 50), "ms", note, at_most=5),
        Figure("hint_p99_ms", percentile(late_ms, 99), "ms", "the same"),
    ]


def watch(dsn: str, ids: list[str], ready: Path) -> dict[str, float]:
    """When each payment was seen to have ended, on the clock that all processes share."""
    return uvloop.run(_bounded(_watch(Database(dsn), ids, ready)))


async def _bounded(work: Coroutine[Any, Any, _T]) -> _T:
    async with asyncio.timeout(load.PATIENCE_S):
        return await work


@asynccontextmanager
async def _joined(database: Database) -> AsyncIterator[App]:
    """One process among those that tell each other; no sweep helps it."""
    store = await open_store(database)
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as home:
        app = app_of(core_of(Settings(home=Path(home)), store, SystemClock(), []))
        tasks = [asyncio.ensure_future(job) for job in jobs(app)]
        await until(lambda: app.hints.listening)
        try:
            yield app
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await store.close()


async def _created(database: Database) -> list[str]:
    store = await open_store(database)
    made = [a_payment() for _ in range(PAYMENTS)]
    await asyncio.gather(*(store.write(payments.create(one)) for one in made))
    await store.close()
    return [one.id for one in made]


async def _watch(database: Database, ids: list[str], ready: Path) -> dict[str, float]:
    seen: dict[str, float] = {}
    begun = asyncio.Semaphore(0)

    async def watcher(app: App, payment_id: str) -> None:
        async for state in app.hub.watch(payment_id):
            if state.status.is_final:
                seen[payment_id] = time.perf_counter()
            begun.release()

    async with _joined(database) as app:
        tasks = [asyncio.create_task(watcher(app, one)) for one in ids]
        for _ in ids:
            await begun.acquire()
        await asyncio.to_thread(ready.touch)
        await asyncio.gather(*tasks)
    return seen


async def _change(
    database: Database, ids: list[str], ready: Path, seen: Future[dict[str, float]]
) -> tuple[dict[str, float], dict[str, float], float]:
    caused: dict[str, float] = {}
    async with _joined(database) as app:
        await until(lambda: asyncio.to_thread(ready.exists), True)
        cpu, started = time.process_time(), time.perf_counter()
        for number, one in enumerate(ids):
            await asyncio.sleep(max(0.0, started + number / PER_S - time.perf_counter()))
            ended = payments.cancel(one, CancelledReason.BY_MERCHANT, time.time_ns() // 1000)
            changed = await app.store.write(ended)
            assert changed is not None
            caused[one] = time.perf_counter()
            await app.changed(changed)
        cpu_us = (time.process_time() - cpu) / len(ids) * 1e6
        found = await asyncio.wrap_future(seen)
    return caused, found, cpu_us
