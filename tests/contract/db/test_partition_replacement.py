"""Test that a month is replaced by the payments that are kept, as a whole or not at all."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from florin_server.db.engine.postgres.partitions import replacing, session
from florin_server.db.engine.postgres.partitions.catalog import format_partition
from florin_server.db.engine.postgres.partitions.converting import convert
from florin_server.db.engine.query import (
    Query,
    Statement,
    StoreError,
    StoreUnavailable,
    operation,
    param,
)
from florin_server.db.tables.tables import lease_table, payment_table
from florin_server.domain.payments.months import format_month
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import payments
from sqlalchemy import literal_column, select, text

from tests.support import postgres
from tests.support.partitions import (
    get_database_month,
    make_id,
    put_payment,
    read_shape,
    read_tree,
)
from tests.support.store_factories import PAYER, create_processing_payment, make_option
from tests.support.until import wait_until

pytestmark = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
)

_RETAINED = Statement(
    select(payment_table.c.id).where(payment_table.c.status == param("retained")), str
)
RETAINED = Query(_RETAINED, {"retained": PaymentStatus.PROCESSING})
_BATCH = Statement(select(lease_table.c.name).where(lease_table.c.name == param("retained")), str)
_IDS = Statement(select(payment_table.c.id).order_by(payment_table.c.id), str)
# sessions that wait for a lock
_WAITS = Statement(
    select(literal_column("pid")).select_from(text("pg_locks")).where(text("NOT granted")), int
)
NONE = Query(_RETAINED, {"retained": PaymentStatus.CANCELLED})


@pytest.fixture
async def database(tmp_path):
    """Create a database with partitions from this month on."""
    created = postgres.get_database(tmp_path)
    await convert(created)
    yield created
    await postgres.drop_database(tmp_path)


@pytest.fixture
async def now(database):
    return await get_database_month(database)


@pytest.fixture
async def store(database):
    opened = await open_store(database)
    yield opened
    await opened.close()


@operation
def _list_ids():
    return (yield from _IDS.all())


async def put_month(store, month, count=5) -> list:
    """Store payments of a month, each with an option; the first one is processing."""
    stored = []
    for number in range(count):
        payment = await put_payment(store, make_id(month, number))
        await store.write(payments.put_options([make_option(payment)]))
        stored.append(payment)
    await create_processing_payment(store, stored[0])
    return stored


async def count_rows(database, month) -> dict[str, int]:
    tables = list(await read_tree(database))
    counts = {}
    for table in tables:
        name = format_partition(table, format_month(month))
        ((counts[table],),) = await postgres.list_rows(database.dsn, f"SELECT count(*) FROM {name}")
    return counts


async def test_only_kept_payments_stay_with_all_their_rows(store, database, now):
    first, *rest = await put_month(store, now)
    (other, *_) = await put_month(store, now + 1)
    retained = await store.payments.find(first.id)
    history = await store.read(payments.list_options(first.id, [PAYER]))
    shape = await read_shape(database, format_partition("payment", format_month(now)))
    result = await store.replace_partition(format_month(now), RETAINED)
    assert (result.is_replaced, result.kept_count) == (True, 1)
    assert await store.payments.find(first.id) == retained
    assert await store.read(payments.list_options(first.id, [PAYER])) == history
    for payment in rest:
        assert await store.payments.find(payment.id) is None
        assert await store.read(payments.list_options(payment.id, [PAYER])) == []
    assert await store.payments.find(other.id) is not None
    assert await count_rows(database, now) == {
        "payment": 1, "payment_event": 2, "payment_option": 1, "option_count": 0, "issued": 0,
        "confirm": 1, "payment_effect": 0,
    }  # fmt: skip
    assert await read_shape(database, format_partition("payment", format_month(now))) == shape
    # the kept payment continues
    payment = await store.payments.find(first.id)
    assert payment.status == PaymentStatus.PROCESSING
    again = await put_payment(store, make_id(now, 99))
    assert await store.payments.find(again.id) == again


async def test_space_of_the_other_payments_is_freed(store, database, now):
    for number in range(40):
        payment = await put_payment(store, make_id(now, number))
        await store.write(
            payments.put_options([make_option(payment, id=f"opt_{n}") for n in range(20)])
        )
    before = {part.month: part.size_bytes for part in await store.list_partitions()}
    result = await store.replace_partition(format_month(now), NONE)
    after = {part.month: part.size_bytes for part in await store.list_partitions()}
    assert result.kept_count == 0
    assert result.freed_bytes == before[format_month(now)] - after[format_month(now)] > 100_000


async def test_too_many_kept_payments_change_nothing(store, database, now):
    stored = await put_month(store, now)
    kept_all = Query(Statement(select(payment_table.c.id), str), {})
    result = await store.replace_partition(format_month(now), kept_all, 4)
    assert (result.is_replaced, result.kept_count) == (False, 5)
    assert (await count_rows(database, now))["payment"] == len(stored)
    result = await store.replace_partition(format_month(now), kept_all, 5)
    assert (result.is_replaced, result.kept_count) == (True, 5)


async def test_past_is_replaced_like_a_month(store, database, now):
    payment = await put_payment(store, make_id(now - 5))
    result = await store.replace_partition("past", NONE)
    assert (result.is_replaced, result.kept_count) == (True, 0)
    assert await store.payments.find(payment.id) is None


async def test_unknown_months_and_plain_tables_are_refused(store, tmp_path_factory):
    with pytest.raises(StoreError, match="no partition for 1999-01"):
        await store.replace_partition("1999-01", NONE)
    folder = tmp_path_factory.mktemp("plain")
    plain = await open_store(postgres.get_database(folder))
    assert await plain.list_partitions() == []
    with pytest.raises(StoreError, match="florin store partition"):
        await plain.replace_partition("2026-01", NONE)
    await plain.close()
    file = await open_store(folder / "florin.db")
    with pytest.raises(StoreError, match="has no partition 2026-01"):
        await file.replace_partition("2026-01", NONE)
    await file.close()
    await postgres.drop_database(folder)


async def test_payments_that_others_change_are_seen_as_changed(store, database, now):
    """A writer that came first ends first, and its payment is retained."""
    _, second, *_ = await put_month(store, now)
    writer = await asyncpg.connect(database.dsn)
    change = writer.transaction()
    await change.start()
    await writer.execute("UPDATE payment SET status = 'processing' WHERE id = $1", second.id)
    replaced = asyncio.create_task(store.replace_partition(format_month(now), RETAINED))
    waiting = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted"
    await wait_until(lambda: postgres.list_rows(database.dsn, waiting), [(True,)])
    await change.commit()
    await writer.close()
    assert (await replaced).kept_count == 2
    assert await store.payments.find(second.id) is not None


@pytest.mark.parametrize("reads", ["SELECT * FROM payment", "SELECT 1"])
async def test_sessions_that_would_miss_payments_are_not_overtaken(
    store, database, now, reads, monkeypatch
):
    """A snapshot may read the month later: its payments would be neither here nor archived."""
    monkeypatch.setattr(session, "LOCK_MS", 10)
    monkeypatch.setattr(session, "_PAUSE_S", 0.0)
    monkeypatch.setattr(session, "_PAUSE_MAX_S", 0.0)
    stored = await put_month(store, now)
    reader = await asyncpg.connect(database.dsn)
    async with reader.transaction(isolation="repeatable_read"):
        await reader.fetch(reads)
        with pytest.raises(StoreUnavailable, match="pg_stat_activity"):
            await store.replace_partition(format_month(now), RETAINED)
        rows = await reader.fetch("SELECT id FROM payment ORDER BY id")
        assert [row["id"] for row in rows] == [payment.id for payment in stored]
    await reader.close()
    assert (await store.replace_partition(format_month(now), RETAINED)).kept_count == 1


async def test_kept_payments_are_in_older_snapshots_too(store, database, now, monkeypatch):
    """A snapshot that began in the last moment finds what is retained, although it was copied."""
    first, *_ = await put_month(store, now)
    monkeypatch.setattr(replacing, "_SNAPSHOTS", "SELECT 0")
    reader = await asyncpg.connect(database.dsn)
    async with reader.transaction(isolation="repeatable_read"):
        await reader.fetch("SELECT 1")
        await store.replace_partition(format_month(now), RETAINED)
        rows = await reader.fetch("SELECT id FROM payment")
        assert [row["id"] for row in rows] == [first.id]
    await reader.close()


async def test_long_scan_sees_all_payments_of_a_month_that_is_replaced(
    store, database, now, monkeypatch
):
    # its lock suffices
    monkeypatch.setattr(replacing, "_SNAPSHOTS", "SELECT 0")
    stored = await put_month(store, now)
    replacements = []

    @operation
    def scan():
        yield from _BATCH.all(retained="")
        replacements.append(asyncio.ensure_future(store.replace_partition(format_month(now), NONE)))
        while not (yield from _WAITS.all()) and not replacements[0].done():
            pass
        return (yield from _IDS.all())

    assert await store.scan(scan()) == [payment.id for payment in stored]
    assert (await replacements[0]).is_replaced
    assert await store.scan(_list_ids()) == []


class Killed(Exception):
    """The process was killed."""


class DyingConnection(asyncpg.Connection):
    """A connection of a process that is killed before one of its requests."""

    left = 0

    def _count(self) -> None:
        if DyingConnection.left == 0:
            self.terminate()
            raise Killed
        DyingConnection.left -= 1

    async def execute(self, query: str, *args, **options):
        if not query.startswith("SET"):
            self._count()
        return await super().execute(query, *args, **options)

    async def copy_to_table(self, table: str, **options):
        self._count()
        return await super().copy_to_table(table, **options)


async def test_kill_at_any_step_leaves_the_old_or_the_new_state(store, database, now, monkeypatch):
    await put_month(store, now)
    before = await count_rows(database, now)
    opened = asyncpg.connect

    async def connect(*args, **options):
        return await opened(*args, **options, connection_class=DyingConnection)

    for step in range(60):
        DyingConnection.left = step
        with monkeypatch.context() as patch:
            patch.setattr(asyncpg, "connect", connect)
            try:
                result = await store.replace_partition(format_month(now), RETAINED)
            except (Killed, asyncpg.InterfaceError, StoreError):
                assert await count_rows(database, now) == before
                continue
        break
    assert step > 10
    assert result.kept_count == 1
    assert (await count_rows(database, now))["payment"] == 1
