"""Test that every payment finds a partition, and that what is wrong with partitions is reported."""

from __future__ import annotations

import asyncpg
import pytest
from florin_server.db.engine import partitioning
from florin_server.db.engine.postgres.partitions import extending
from florin_server.db.engine.postgres.partitions.catalog import format_partition
from florin_server.db.engine.postgres.partitions.converting import convert
from florin_server.db.engine.postgres.partitions.session import open_partition_session
from florin_server.db.engine.query import StoreError, StoreUnavailable
from florin_server.domain.payments.months import format_month, get_first_id
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import payments

from tests.support import postgres
from tests.support.partitions import (
    get_database_month,
    make_id,
    put_payment,
    read_shape,
    read_tree,
    to_time_us,
)
from tests.support.store_factories import PAYER, make_option

pytestmark = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
)

_PLACES = "SELECT tableoid::regclass::text, id FROM payment ORDER BY id"


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


async def list_months(store) -> list[str]:
    return [part.month for part in await store.list_partitions()][1:]


async def test_next_months_are_created_ahead(store, database, now):
    status = await store.read_partition_status(to_time_us(now))
    assert (status.missing, status.stray_rows, status.is_due) == ((), {}, False)
    later = to_time_us(now + 2)
    assert (await store.read_partition_status(later)).is_due
    await store.extend_partitions(later)
    assert await list_months(store) == [format_month(month) for month in range(now, now + 6)]
    assert not (await store.read_partition_status(later)).is_due
    for table, names in (await read_tree(database)).items():
        expected = await read_shape(database, table)
        for name in names:
            assert await read_shape(database, name) == expected


async def test_rows_of_the_default_partition_move_in_portions(store, database, now, monkeypatch):
    """A process was off for months: its first payments came before the partitions."""
    monkeypatch.setattr(extending, "MOVED_MAX", 2)
    month = now + 4
    stored = []
    for number in range(5):
        payment = await put_payment(store, make_id(month, number))
        options = [make_option(payment, id=f"opt_{n}") for n in range(3)]
        await store.write(payments.put_options(options))
        stored.append(payment)
    beyond = await put_payment(store, make_id(month + 40))
    later = to_time_us(month)
    status = await store.read_partition_status(later)
    assert status.stray_rows["payment_default"] == 6
    assert status.stray_rows["payment_option_default"] == 15
    await store.extend_partitions(later)
    assert await list_months(store) == [format_month(n) for n in range(now, month + 4)]
    assert await postgres.list_rows(database.dsn, _PLACES) == [
        *((format_partition("payment", format_month(month)), payment.id) for payment in stored),
        ("payment_default", beyond.id),
    ]
    assert (await store.read_partition_status(later)).stray_rows["payment_default"] == 1
    for payment in [*stored, beyond]:
        assert await store.payments.find(payment.id) == payment
        assert len(await store.read(payments.list_options(payment.id, [PAYER]))) == 3 * (
            payment != beyond
        )


async def test_moving_rows_continues_after_an_interruption(store, database, now, monkeypatch):
    month = now + 4
    stored = [await put_payment(store, make_id(month, number)) for number in range(5)]

    class Killed(Exception):
        pass

    portions = []

    async def extend(*arguments):
        if len(portions) == 2:
            raise Killed
        portions.append(1)
        await real(*arguments)

    real = extending._extend  # noqa: SLF001
    async with open_partition_session(database) as raw:
        monkeypatch.setattr(extending, "_extend", extend)
        with pytest.raises(Killed):
            await extending.create_month(raw, month, 1, 2)
    monkeypatch.undo()
    places = [name for name, _ in await postgres.list_rows(database.dsn, _PLACES)]
    assert places == [format_partition("payment", format_month(month))] * 4 + ["payment_default"]
    await store.extend_partitions(to_time_us(month))
    assert await postgres.list_rows(database.dsn, _PLACES) == [
        (format_partition("payment", format_month(month)), payment.id) for payment in stored
    ]
    parts = {part.month: part for part in await store.list_partitions()}
    assert parts[format_month(month)].end_id == get_first_id(month + 1)


async def test_detached_month_is_reported_and_the_others_serve(store, database, now):
    retained = await put_payment(store, make_id(now + 1))
    lost = await put_payment(store, make_id(now))
    name = format_partition("payment", format_month(now))
    await postgres.run_commands(database.dsn, f"ALTER TABLE payment DETACH PARTITION {name}")
    later = await put_payment(store, make_id(now, 2))
    at_us = to_time_us(now)
    status = await store.read_partition_status(at_us)
    assert status.missing == (f"payment lacks {format_month(now)}",)
    assert status.stray_rows["payment_default"] == 1
    # a month that has a table of its own is for the operator
    await store.extend_partitions(at_us)
    assert (await store.read_partition_status(at_us)).missing == status.missing
    for payment in (retained, later):
        assert await store.payments.find(payment.id) == payment
    with pytest.raises(StoreError, match=f"the table {name} exists"):
        await convert(database)
    await postgres.run_commands(database.dsn, f"ALTER TABLE {name} RENAME TO saved")
    result = await convert(database)
    assert (result.is_converted, result.created_months) == (False, 1)
    assert await store.payments.find(later.id) == later
    await postgres.run_commands(
        database.dsn, "INSERT INTO payment SELECT * FROM saved", "DROP TABLE saved"
    )
    assert await store.payments.find(lost.id) == lost
    status = await store.read_partition_status(at_us)
    assert (status.missing, status.stray_rows) == ((), {})


async def test_month_dropped_from_one_table_is_created_again(store, database, now):
    name = format_partition("payment_option", format_month(now + 1))
    await postgres.run_commands(database.dsn, f"DROP TABLE {name}")
    status = await store.read_partition_status(to_time_us(now))
    assert status.missing == (f"payment_option lacks {format_month(now + 1)}",)
    await convert(database)
    assert (await store.read_partition_status(to_time_us(now))).missing == ()
    assert await read_shape(database, name) == await read_shape(database, "payment_option")


async def test_lost_default_and_past_partitions_are_reported(store, database, now):
    at_us = to_time_us(now)
    await postgres.run_commands(database.dsn, "DROP TABLE confirm_default, issued_past")
    status = await store.read_partition_status(at_us)
    assert status.missing == ("issued lacks past", "confirm has no default partition")
    assert status.is_due
    await store.extend_partitions(at_us)
    status = await store.read_partition_status(at_us)
    assert (status.missing, status.is_due) == (("issued lacks past",), False)
    await convert(database)
    assert (await store.read_partition_status(at_us)).missing == ()


async def test_months_wait_for_a_migration(store, database, now):
    guard = await asyncpg.connect(database.dsn)
    async with guard.transaction():
        await guard.execute("LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreUnavailable, match="another process changes the schema"):
            await store.extend_partitions(to_time_us(now + 2))
    await guard.close()
    await store.extend_partitions(to_time_us(now + 2))


async def test_ids_of_any_shape_are_stored(store):
    """Only those that contain a time have a month."""
    for payment_id in ("pay_", "pay_-", "pay_zzzzzzzzzzzzzzz", "pay_é"):
        payment = await put_payment(store, payment_id)
        assert await store.payments.find(payment.id) == payment


async def test_store_without_partitions_has_none(tmp_path):
    where = tmp_path / "florin.db"
    opened = await open_store(where)
    assert not opened.can_partition
    assert await opened.list_partitions() == []
    assert await opened.read_partition_status(0) is None
    await opened.extend_partitions(0)
    await opened.close()
    with pytest.raises(StoreError, match="florin store copy"):
        partitioning.partition(where)
