"""Test that processes keep partitions ahead of the calendar, one of them at a time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace

import asyncpg
import pytest
from florin_server.app.housekeeping.partitions import LEASE_NAME, maintain_partitions
from florin_server.base.clock import TestClock
from florin_server.db.engine.partitions import STRAY_MAX, PartitionStatus
from florin_server.db.engine.postgres.partitions.catalog import format_partition
from florin_server.db.engine.postgres.partitions.converting import convert
from florin_server.domain.payments.months import format_month
from florin_server.money.open_store import open_store
from florin_server.operations.process import PartitionHealth
from florin_server.operations.store import leases

from tests.support import postgres
from tests.support.partitions import get_database_month, make_id, put_payment, to_time_us
from tests.support.until import advance, wait_until

pytestmark = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
)

_OWNER = "one"


@pytest.fixture
async def database(tmp_path):
    created = postgres.get_database(tmp_path)
    await convert(created)
    yield created
    await postgres.drop_database(tmp_path)


@pytest.fixture
async def app(database):
    """Return the parts of a process whose clock is three months ahead."""
    month = await get_database_month(database)
    store = await open_store(database)
    yield SimpleNamespace(
        store=store,
        clock=TestClock(to_time_us(month + 3)),
        partition_health=PartitionHealth(),
        month=month,
    )
    await store.close()


@pytest.fixture
async def run(app):
    """Start the worker of an owner, and wait for its first turn."""
    tasks = []

    async def start(owner: str) -> None:
        tasks.append(asyncio.create_task(maintain_partitions(app, owner)))
        await wait_until(lambda: app.clock.sleeper_count == len(tasks) or tasks[-1].done())

    yield start
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def get_newest_month(store) -> str:
    return (await store.list_partitions())[-1].month


async def test_worker_creates_the_next_months(app, run):
    stray = await put_payment(app.store, make_id(app.month + 4))
    await run(_OWNER)
    assert await get_newest_month(app.store) == format_month(app.month + 6)
    assert app.partition_health == PartitionHealth()
    assert await app.store.payments.find(stray.id) == stray
    # other processes can take over at once
    (lease,) = await app.store.read(leases.list_leases())
    assert (lease.name, lease.holder) == (LEASE_NAME, "")


async def test_process_without_workers_only_reports(app, run):
    await put_payment(app.store, make_id(app.month + 5))
    await run("")
    assert app.partition_health.stray_rows == (
        "payment_default has 1 rows",
        "payment_event_default has 1 rows",
    )
    assert await get_newest_month(app.store) == format_month(app.month + 3)


async def test_lease_of_another_process_is_respected(app, run):
    now_us = app.clock.now_us()
    await app.store.write(leases.acquire(LEASE_NAME, "other", now_us, 60_000_000, steal=False))
    await run(_OWNER)
    assert await get_newest_month(app.store) == format_month(app.month + 3)
    for _ in range(11):
        await advance(app.clock, 60)
    assert await get_newest_month(app.store) == format_month(app.month + 6)


async def test_worker_tries_again_after_tables_were_locked(app, run, database, caplog):
    guard = await asyncpg.connect(database.dsn)
    async with guard.transaction():
        await guard.execute("LOCK TABLE alembic_version IN SHARE UPDATE EXCLUSIVE MODE")
        await run(_OWNER)
    await guard.close()
    assert "tried again later" in caplog.text
    assert await get_newest_month(app.store) == format_month(app.month + 3)
    for _ in range(10):
        await advance(app.clock, 60)
    assert await get_newest_month(app.store) == format_month(app.month + 6)


async def test_detached_months_are_reported_by_name(app, run, database):
    month = format_month(app.month + 1)
    name = format_partition("confirm", month)
    await postgres.run_commands(database.dsn, f"ALTER TABLE confirm DETACH PARTITION {name}")
    await run(_OWNER)
    assert app.partition_health.missing == (f"confirm lacks {month}",)
    assert await get_newest_month(app.store) == format_month(app.month + 6)


def test_report_counts_only_the_first_rows():
    health = PartitionHealth()
    health.record(PartitionStatus(stray_rows={"payment_default": STRAY_MAX}))
    assert health.stray_rows == ("payment_default has at least 1000 rows",)
    health.record(None)
    assert health == PartitionHealth()
