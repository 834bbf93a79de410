"""Test that tables become partitioned without a loss, and whatever interrupts that."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from florin_server.db.engine import partitioning
from florin_server.db.engine.partitions import PARTITION_KEYS
from florin_server.db.engine.postgres.partitions import converting, session
from florin_server.db.engine.postgres.partitions.catalog import RANGE_CHECK
from florin_server.db.engine.postgres.partitions.converting import convert
from florin_server.db.engine.query import StoreError
from florin_server.db.engine.where import DatabaseConfig
from florin_server.domain.payments.months import format_month, get_first_id
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import payments

from tests.support import postgres
from tests.support.partitions import (
    get_database_month,
    make_id,
    put_payment,
    read_shape,
    read_shapes,
    read_tree,
)
from tests.support.store_factories import (
    make_option,
)
from tests.support.until import wait_until

pytestmark = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
)

_CHECKS = f"SELECT count(*) FROM pg_constraint WHERE conname = '{RANGE_CHECK}'"
_ROWS = "SELECT tableoid::regclass::text, id FROM payment ORDER BY id"
_FILES = "SELECT relname, relfilenode FROM pg_class WHERE relname LIKE 'payment%past' ORDER BY 1"


@pytest.fixture
async def database(tmp_path):
    yield postgres.get_database(tmp_path)
    await postgres.drop_database(tmp_path)


@pytest.fixture
async def store(database):
    opened = await open_store(database)
    yield opened
    await opened.close()


async def read_plain_shapes(database: DatabaseConfig) -> dict[str, list]:
    return await read_shapes(database, list(PARTITION_KEYS))


async def test_empty_database_gets_months_from_now_on(database, store):
    plain = await read_plain_shapes(database)
    result = await convert(database)
    now = await get_database_month(database)
    assert (result.is_converted, result.created_months) == (True, 4)
    partitions = await store.list_partitions()
    assert [part.month for part in partitions] == [
        "past",
        *(format_month(month) for month in range(now, now + 4)),
    ]
    assert (partitions[0].first_id, partitions[0].end_id) == ("", get_first_id(now))
    assert (partitions[1].first_id, partitions[1].end_id) == (
        get_first_id(now),
        get_first_id(now + 1),
    )
    assert partitions[0].size_bytes > 0
    tree = await read_tree(database)
    assert tree.keys() == plain.keys()
    for table, names in tree.items():
        assert len(names) == 6
        for shape in (await read_shapes(database, [table, *names])).values():
            assert shape == plain[table]


async def test_existing_rows_become_the_first_partition_with_the_same_files(database, store):
    now = await get_database_month(database)
    old = [await put_payment(store, make_id(month)) for month in (now - 30, now, now + 1)]
    before = await postgres.list_rows(
        database.dsn, "SELECT relname, relfilenode FROM pg_class WHERE relname = 'payment'"
    )
    plain = await read_plain_shapes(database)
    await convert(database)
    assert [part.month for part in await store.list_partitions()] == [
        "past",
        *(format_month(month) for month in range(now + 2, now + 4)),
    ]
    files = dict(await postgres.list_rows(database.dsn, _FILES))
    assert files["payment_past"] == before[0][1]
    # the connections of the open store have statements prepared for the old table
    for payment in old:
        assert await store.payments.find(payment.id) == payment
    new = await put_payment(store, make_id(now + 2))
    assert await postgres.list_rows(database.dsn, _ROWS) == [
        *(("payment_past", payment.id) for payment in old),
        (f"payment_{format_month(now + 2).replace('-', '_')}", new.id),
    ]
    for table, names in (await read_tree(database)).items():
        for shape in (await read_shapes(database, [table, *names])).values():
            assert shape == plain[table]


async def test_second_run_changes_nothing(database, store):
    await convert(database)
    tree = await read_tree(database)
    result = await convert(database)
    assert (result.is_converted, result.created_months) == (False, 0)
    assert await read_tree(database) == tree


async def test_privileges_of_other_roles_stay(database):
    role = f"reports_{database.dsn.rpartition('_')[2].partition('?')[0]}"
    await postgres.run_commands(
        database.dsn,
        f"CREATE ROLE {role}",
        f"GRANT SELECT ON payment TO {role} WITH GRANT OPTION",
        "GRANT UPDATE ON payment TO PUBLIC",
    )
    query = "SELECT relacl::text FROM pg_class WHERE oid = 'payment'::regclass"
    before = await postgres.list_rows(database.dsn, query)
    await convert(database)
    after = await postgres.list_rows(database.dsn, query)
    assert [sorted(acl.strip("{}").split(",")) for (acl,) in after] == [
        sorted(acl.strip("{}").split(",")) for (acl,) in before
    ]
    await postgres.run_commands(database.dsn, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("CREATE VIEW report AS SELECT id FROM payment", "the view report"),
        ("CREATE TABLE mine (id text CONSTRAINT to_payment REFERENCES payment)", "key to_payment"),
        ("CREATE TABLE issued_past (x int)", "the table issued_past"),
        ("CREATE PUBLICATION feed FOR TABLE confirm", "the publication feed"),
    ],
)
async def test_what_would_not_follow_the_partitions_is_refused_by_name(database, statement, named):
    await postgres.run_commands(database.dsn, statement)
    with pytest.raises(StoreError, match=named):
        await convert(database)
    assert await read_tree(database) == {}


async def test_ids_of_a_clock_that_was_ahead_are_refused(database, store):
    now = await get_database_month(database)
    payment = await put_payment(store, make_id(now + 2))
    with pytest.raises(StoreError, match=payment.id):
        await convert(database)
    assert await postgres.list_rows(database.dsn, _CHECKS) == [(0,)]


async def test_sqlite_and_other_engines_are_refused(database, tmp_path):
    with pytest.raises(StoreError, match="SQLite has no partitions"):
        partitioning.partition(tmp_path / "florin.db")
    for options in ({"serializable": True}, {"notify": False}):
        with pytest.raises(StoreError, match="PostgreSQL itself"):
            partitioning.partition(DatabaseConfig(database.dsn, **options))


async def test_locked_tables_are_waited_for_while_others_write(database, store, monkeypatch):
    monkeypatch.setattr(session, "LOCK_MS", 20)
    monkeypatch.setattr(session, "_PAUSE_S", 0.0)
    monkeypatch.setattr(session, "_PAUSE_MAX_S", 0.0)
    await put_payment(store, make_id(await get_database_month(database)))
    tries = []
    real = converting._swap_tables  # noqa: SLF001
    reader = await asyncpg.connect(database.dsn)

    async def count(*arguments, **options):
        if not tries:
            await reader.execute("BEGIN")
            await reader.fetch("SELECT * FROM payment_event")
        tries.append(1)
        return await real(*arguments, **options)

    monkeypatch.setattr(converting, "_swap_tables", count)
    conversion = asyncio.create_task(convert(database))
    await wait_until(lambda: len(tries) > 2)
    await put_payment(store, make_id(await get_database_month(database), 2))
    await reader.close()
    await conversion
    assert len((await read_tree(database))["payment"]) == 4


async def test_payment_created_while_an_empty_database_is_converted_is_kept(database, store):
    async def convert_late(*arguments, **options):
        await put_payment(store, make_id(await get_database_month(database)))
        return await real(*arguments, **options)

    real = converting._swap_tables  # noqa: SLF001
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(converting, "_swap_tables", convert_late)
        with pytest.raises(StoreError, match="run the command again"):
            await convert(database)
    await convert(database)
    assert [name for name, _ in await postgres.list_rows(database.dsn, _ROWS)] == ["payment_past"]


class Killed(Exception):
    """The process was killed."""


class DyingConnection(asyncpg.Connection):
    """A connection of a process that is killed before one of its changes."""

    left = 0

    async def execute(self, query: str, *args, **options):
        if not query.startswith(("SET", "BEGIN", "COMMIT")):
            if DyingConnection.left == 0:
                self.terminate()
                raise Killed
            DyingConnection.left -= 1
        return await super().execute(query, *args, **options)


async def test_conversion_continues_after_a_kill_at_any_step(database, store, monkeypatch):
    plain = await read_plain_shapes(database)
    now = await get_database_month(database)
    created = await put_payment(store, make_id(now))
    await store.write(payments.put_options([make_option(created)]))
    opened = asyncpg.connect

    async def connect(*args, **options):
        return await opened(*args, **options, connection_class=DyingConnection)

    for step in range(200):
        DyingConnection.left = step
        with monkeypatch.context() as patch:
            patch.setattr(asyncpg, "connect", connect)
            try:
                result = await convert(database)
            except (Killed, asyncpg.InterfaceError):
                # what others do meanwhile works after every step
                assert await store.payments.find(created.id) == created
                await put_payment(store, make_id(now + 1, step))
                continue
        break
    assert step > 20
    # the last run had only the rest to do
    assert not result.is_converted
    assert await postgres.list_rows(database.dsn, _CHECKS) == [(0,)]
    for table, names in (await read_tree(database)).items():
        assert len(names) == 4
        for name in names:
            assert await read_shape(database, name) == plain[table]
    assert len(await postgres.list_rows(database.dsn, _ROWS)) == step + 1


async def test_constraint_of_a_killed_conversion_is_dropped_by_the_worker(database, store):
    await postgres.run_commands(
        database.dsn, f"ALTER TABLE confirm ADD CONSTRAINT {RANGE_CHECK} CHECK (payment_id < 'a')"
    )
    status = await store.read_partition_status(0)
    assert status is not None
    assert status.is_due
    await store.extend_partitions(0)
    assert await postgres.list_rows(database.dsn, _CHECKS) == [(0,)]
    assert await store.read_partition_status(0) is None
