"""Test that months are emptied and merged, as a whole or not at all."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import asyncpg
import pytest
from florin_server.db.engine.postgres.partitions import merging, replacing, session
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
from florin_server.domain.payments.months import format_month, get_first_id, get_start_us
from florin_server.domain.payments.payment import CancellationReason, PaymentStatus
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import payments
from sqlalchemy import literal_column, select, text

from tests.support import postgres
from tests.support.partitions import (
    get_database_month,
    list_bounds,
    make_id,
    put_payment,
    read_shape,
    read_tree,
)
from tests.support.store_factories import LATER_US, PAYER, create_processing_payment, make_option
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


@pytest.fixture
def dying():
    """Return a way to kill the process that changes partitions at its nth request."""
    opened = asyncpg.connect

    async def connect(*args, **options):
        return await opened(*args, **options, connection_class=DyingConnection)

    def kill_at(patch, step):
        DyingConnection.left = step
        patch.setattr(asyncpg, "connect", connect)

    return kill_at


async def test_kill_at_any_step_leaves_the_old_or_the_new_state(
    store, database, now, monkeypatch, dying
):
    await put_month(store, now)
    before = await count_rows(database, now)
    for step in range(60):
        with monkeypatch.context() as patch:
            dying(patch, step)
            try:
                result = await store.replace_partition(format_month(now), RETAINED)
            except (Killed, asyncpg.InterfaceError, StoreError):
                assert await count_rows(database, now) == before
                continue
        break
    assert step > 10
    assert result.kept_count == 1
    assert (await count_rows(database, now))["payment"] == 1


async def test_months_are_merged_from_the_oldest_on(store, database, now):
    stored = [
        payment for month in (now - 1, now, now + 1) for payment in await put_month(store, month, 2)
    ]
    tables = list(await read_tree(database))
    shapes = [await read_shape(database, f"{table}_past") for table in tables]
    for month in (now, now + 1):
        assert await store.merge_partition(format_month(month), 6)
    months = [part.month for part in await store.list_partitions()]
    assert months == ["past", format_month(now + 2), format_month(now + 3)]
    for table, partitions in (await read_tree(database)).items():
        assert format_partition(table, format_month(now)) not in partitions
        end = f"'{get_first_id(now + 2)}'"
        assert await list_bounds(database, f"{table}_past") == ["MINVALUE", end]
    assert [await read_shape(database, f"{table}_past") for table in tables] == shapes
    for payment in stored:
        assert await store.payments.find(payment.id) is not None
        assert await store.read(payments.list_options(payment.id, [PAYER]))
    # a payment that comes back has a place
    again = await put_payment(store, make_id(now, 99))
    assert await store.payments.find(again.id) == again
    assert not (await store.read_partition_status(get_start_us(now))).missing


async def test_months_that_cannot_be_merged_stay(store, database, now, tmp_path_factory):
    await put_month(store, now - 1, 2)
    await put_month(store, now, 2)
    before = await store.list_partitions()
    assert not await store.merge_partition(format_month(now), 3)
    with pytest.raises(StoreError, match="does not follow"):
        await store.merge_partition(format_month(now + 1))
    with pytest.raises(StoreError, match="no partition for 1999-01"):
        await store.merge_partition("1999-01")
    assert await store.list_partitions() == before
    file = await open_store(tmp_path_factory.mktemp("plain") / "florin.db")
    with pytest.raises(StoreError, match="has no partition"):
        await file.merge_partition(format_month(now))
    await file.close()


@pytest.mark.parametrize("changes", [3, 5])
async def test_changes_after_the_copy_are_copied_again(store, database, now, monkeypatch, changes):
    stored = await put_month(store, now)
    copy, copies = merging.copy_partitions, []
    commands = [
        f"UPDATE payment SET reference_id = 'other' WHERE id = '{stored[1].id}'",
        f"DELETE FROM payment_option WHERE payment_id = '{stored[2].id}'",
        f"INSERT INTO option_count VALUES ('{stored[3].id}', '', 7)",
        f"UPDATE payment SET reference_id = 'newest' WHERE id = '{stored[1].id}'",
        f"DELETE FROM payment WHERE id = '{stored[4].id}'",
    ]

    async def copy_and_change(*arguments):
        digests = await copy(*arguments)
        copies.append(digests)
        if len(copies) <= changes:
            await postgres.run_commands(database.dsn, commands[len(copies) - 1])
        return digests

    monkeypatch.setattr(merging, "copy_partitions", copy_and_change)
    if changes == 5:
        with pytest.raises(StoreUnavailable, match="merged later"):
            await store.merge_partition(format_month(now))
        return
    assert await store.merge_partition(format_month(now))
    assert len(copies) == 4
    assert (await store.payments.find(stored[1].id)).reference_id == "other"
    assert await store.read(payments.list_options(stored[2].id, [PAYER])) == []
    query = "SELECT n FROM option_count WHERE payment_id = $1"
    assert await postgres.list_rows(database.dsn, query, stored[3].id) == [(7,)]


async def test_calls_of_others_lose_no_payment_while_months_are_merged(store, database, now):
    """Payments are created, changed and read meanwhile, also of the months that are merged."""
    old = await put_month(store, now, 3)
    merges = asyncio.create_task(_merge_all(store, [format_month(now), format_month(now + 1)]))
    number = 0
    while not merges.done():
        number += 1
        # writers of a month that is merged are rare, and the merge gives way to them
        month = now if number % 50 == 1 else now + 2
        created = await put_payment(store, make_id(month, 100 + number))
        await store.write(payments.cancel(created.id, CancellationReason.BY_MERCHANT, LATER_US))
        assert (await store.payments.find(created.id)).status == PaymentStatus.CANCELLED
        assert await store.payments.find(old[1].id) is not None
    await merges
    assert number > 1
    assert len(await store.scan(_list_ids())) == len(old) + number
    assert (await store.list_partitions())[1].month == format_month(now + 2)


async def _merge_all(store, months) -> None:
    for month in months:
        while True:
            with suppress(StoreUnavailable):
                assert await store.merge_partition(month)
                break


async def test_snapshot_keeps_months_apart_until_it_ends(store, database, now, monkeypatch):
    monkeypatch.setattr(session, "_PAUSE_S", 0.0)
    monkeypatch.setattr(session, "_PAUSE_MAX_S", 0.0)
    stored = await put_month(store, now)
    reader = await asyncpg.connect(database.dsn)
    async with reader.transaction(isolation="repeatable_read"):
        await reader.fetch("SELECT 1")
        with pytest.raises(StoreUnavailable, match="pg_stat_activity"):
            await store.merge_partition(format_month(now))
        rows = await reader.fetch("SELECT id FROM payment")
        assert {row["id"] for row in rows} == {payment.id for payment in stored}
    await reader.close()
    assert await store.merge_partition(format_month(now))


async def test_kill_while_months_are_merged_changes_nothing(
    store, database, now, monkeypatch, dying
):
    stored = await put_month(store, now)
    before = await read_tree(database)
    for step in range(80):
        with monkeypatch.context() as patch:
            dying(patch, step)
            try:
                assert await store.merge_partition(format_month(now))
            except (Killed, asyncpg.InterfaceError, StoreError):
                assert await read_tree(database) == before
                assert (await count_rows(database, now))["payment"] == len(stored)
                continue
        break
    assert step > 10
    assert len(await store.scan(_list_ids())) == len(stored)
