"""Payments on PostgreSQL: the store against bare asyncpg, and against a session of SQLModel."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from typing import Any

from florin_server.domain.payments.payment import CancelledReason, Payment
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.query import Statement
from florin_server.store.engine.where import Database
from florin_server.store.payments import payments
from florin_server.store.tables.payments import PaymentEventRow, PaymentRow
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from tests.bench.create import a_payment
from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support import postgres

ROUNDS, COUNT = sized((3, 3000), (1, 30))
CONCURRENCY = 64

# operations a second, and microseconds of this process's CPU for each
Pace = tuple[float, float]
Work = Callable[[Payment], Awaitable[Any]]


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    """The same work in three ways, turn by turn."""
    server = postgres.OwnServer()
    try:
        asyncio.run(_tables(server.database))
        found = [asyncio.run(_round(server.database)) for _ in range(ROUNDS)]
    finally:
        server.end()
    return [one for what in ("create", "status", "cancel") for one in _told(what, found)]


def _told(what: str, found: list[dict[tuple[str, str], Pace]]) -> list[Figure]:
    rate = median(one[what, "store"][0] for one in found)
    cpu = median(one[what, "store"][1] for one in found)
    note = f"{CONCURRENCY} at once, {cpu:.0f} µs CPU of this process, medians of {ROUNDS} rounds"
    ratios = []
    for peer in ("asyncpg", "session"):
        by_rate = median(one[what, "store"][0] / one[what, peer][0] for one in found)
        by_cpu = median(one[what, peer][1] / one[what, "store"][1] for one in found)
        told = f"by wall clock; by CPU {by_cpu:.2f}"
        ratios.append(Figure(f"pg_{what}_vs_{peer}", by_rate, "×", told))
    return [Figure(f"pg_{what}_per_s", rate, "/s", note), *ratios]


async def _tables(database: Database) -> None:
    await (await open_store(database)).close()


async def _round(database: Database) -> dict[tuple[str, str], Pace]:
    paces: dict[tuple[str, str], Pace] = {}
    for name, begin in (("store", _store), ("asyncpg", _asyncpg), ("session", _session)):
        works, end = await begin(database)
        made = [a_payment() for _ in range(COUNT)]
        for what, work in zip(("create", "status", "cancel"), works, strict=True):
            paces[what, name] = await _pace(work, made)
        await end()
    return paces


async def _pace(work: Work, made: list[Payment]) -> Pace:
    upcoming = iter(made)

    async def worker() -> None:
        for one in upcoming:
            await work(one)

    cpu, began = time.process_time(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    seconds = time.perf_counter() - began
    return len(made) / seconds, (time.process_time() - cpu) / len(made) * 1e6


async def _store(database: Database) -> Any:
    store = await open_store(database)
    by, at = CancelledReason.BY_MERCHANT, itertools.count(time.time_ns() // 1000)
    return (
        lambda one: store.write(payments.create(one)),
        lambda one: store.reader.payment(one.id),
        lambda one: store.write(payments.cancel(one.id, by, next(at))),
    ), store.close


async def _asyncpg(database: Database) -> Any:
    """The same statements, one transaction each, on as many connections."""
    import asyncpg

    pool = await asyncpg.create_pool(
        database.dsn, min_size=4, max_size=4, reset=_nothing, statement_cache_size=200
    )
    insert, event = payments._INSERT.postgres, payments._EVENT.postgres  # noqa: SLF001
    get, change = payments._GET.postgres, payments._CANCEL.postgres  # noqa: SLF001

    async def create(one: Payment) -> None:
        told = payments.event_of(one, "created")
        async with pool.acquire() as raw, raw.transaction():
            await raw.execute(insert.sql, *insert.values(one))
            await raw.execute(event.sql, *event.values(told))

    async def status(one: Payment) -> None:
        async with pool.acquire() as raw:
            await raw.fetch(get.sql, *get.values({"ids": [one.id]}))

    async def cancel(one: Payment) -> None:
        by, now_us = CancelledReason.BY_MERCHANT, time.time_ns() // 1000
        asked = {"payment_id": one.id, "now_s": now_us // 1_000_000, "now_us": now_us}
        async with pool.acquire() as raw, raw.transaction():
            rows = await raw.fetch(change.sql, *change.values(asked | {"cancelled_reason": by}))
            changed = Payment(*change.rows([tuple(row) for row in rows])[0])
            await raw.execute(event.sql, *event.values(payments.event_of(changed, "cancel")))

    return (create, status, cancel), pool.close


async def _session(database: Database) -> Any:
    """What one would write with the models: objects, sessions, a commit each."""
    import asyncpg

    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(database.dsn), pool_size=4,
        max_overflow=0,
    )  # fmt: skip
    names = Statement(select(PaymentRow.__table__)).clause.exported_columns.keys()  # type: ignore[attr-defined]

    async def create(one: Payment) -> None:
        async with AsyncSession(engine) as session:
            session.add(PaymentRow(**{name: getattr(one, name) for name in names}))
            session.add(PaymentEventRow(**payments.event_of(one, "created")))
            await session.commit()

    async def status(one: Payment) -> None:
        async with AsyncSession(engine) as session:
            await session.get(PaymentRow, one.id)

    async def cancel(one: Payment) -> None:
        async with AsyncSession(engine) as session:
            found = await session.get(PaymentRow, one.id, with_for_update=True)
            assert found is not None
            found.status, found.version = type(found.status)("cancelled"), found.version + 1
            told = {"payment_id": found.id, "version": found.version, "status": found.status}
            session.add(PaymentEventRow(**told, at_us=1, cause="cancel", detail=None))
            await session.commit()

    return (create, status, cancel), engine.dispose


async def _nothing(_raw: Any) -> None:
    """A round trip for each use would be the pool's, not the statements'."""
