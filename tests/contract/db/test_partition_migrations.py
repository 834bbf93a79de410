"""Test that later releases migrate a store with partitions to the same tables as a plain one."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from florin_server.db.engine import schema
from florin_server.db.engine.partitions import PARTITION_KEYS
from florin_server.db.engine.postgres.partitions.converting import convert
from florin_server.db.migrations import indexes, list_offline_statements
from florin_server.db.migrations.indexes import EarlyIndex, build_indexes, split_indexes
from florin_server.db.migrations.postgres import upgrade
from florin_server.money.open_store import open_store

from tests.support import postgres
from tests.support.partitions import (
    get_database_month,
    make_id,
    put_payment,
    read_shapes,
    read_tree,
)

pytestmark = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
)

# the first schema with all tables that are partitioned
OLD = "v0023"
_INVALID = "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid"
_PARENT_INDEXES = """
SELECT indexname FROM pg_indexes WHERE tablename = ANY($1) ORDER BY indexname
"""
_NEW = EarlyIndex("ix_payment_later", "payment", " (reference_id) WHERE description IS NOT NULL")


@pytest.fixture
async def old(tmp_path):
    """Create a store of an older schema with partitions."""
    database = postgres.create_empty_database(tmp_path)
    await postgres.run_commands(database.dsn, schema.VERSION_TABLE)
    await upgrade(database, OLD)
    # no release with partitions had it
    key = "ALTER TABLE chain_tx_item DROP CONSTRAINT fk_chain_tx_item_payment_id"
    await postgres.run_commands(database.dsn, key)
    await convert(database)
    yield database
    await postgres.drop_database(tmp_path)


@pytest.fixture
async def current(tmp_path):
    """Create a store of the current schema with partitions."""
    database = postgres.get_database(tmp_path)
    await convert(database)
    yield database
    await postgres.drop_database(tmp_path)


@pytest.fixture
async def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    yield postgres.get_database(folder)
    await postgres.drop_database(folder)


async def require_equal(database, plain) -> None:
    """Compare every partition, and the names of the indexes that migrations know."""
    tables = list(PARTITION_KEYS)
    expected = await read_shapes(plain, tables)
    tree = await read_tree(database)
    assert tree.keys() == expected.keys()
    for table, names in tree.items():
        for shape in (await read_shapes(database, [table, *names])).values():
            assert sorted(shape, key=repr) == sorted(expected[table], key=repr)
    assert await postgres.list_rows(
        database.dsn, _PARENT_INDEXES, tables
    ) == await postgres.list_rows(plain.dsn, _PARENT_INDEXES, tables)
    assert await postgres.list_rows(database.dsn, _INVALID) == []


async def test_store_with_partitions_is_migrated_like_a_plain_one(old, plain):
    await upgrade(old)
    await require_equal(old, plain)
    store = await open_store(old)
    payment = await put_payment(store, make_id(await get_database_month(old)))
    assert await store.payments.find(payment.id) == payment
    await store.close()


async def test_indexes_are_built_on_each_partition_while_others_write(old, monkeypatch):
    executed: list[str] = []
    build = indexes._build  # noqa: SLF001

    async def record(builder, name, statement):
        executed.append(statement)
        await build(builder, name, statement)

    monkeypatch.setattr(indexes, "_build", record)
    await upgrade(old)
    assert executed
    assert all("CONCURRENTLY" in statement for statement in executed)
    parents = {f" ON {table}(" for table in PARTITION_KEYS}
    assert not any(parent in statement for parent in parents for statement in executed)


async def test_interrupted_build_on_partitions_is_continued(old, plain):
    statements = list_offline_statements("postgresql", OLD, "head")
    early = next(index for index in split_indexes(statements)[0] if index.table == "payment")
    # one partition has an index that is not used, one has none, and the others are not attached
    await postgres.run_commands(
        old.dsn, f"CREATE INDEX {early.name} ON ONLY {early.table}{early.columns}"
    )
    ((number,),) = await postgres.list_rows(old.dsn, "SELECT 'payment_past'::regclass::oid::int8")
    name = f"{early.name}_{number}"
    await postgres.run_commands(
        old.dsn,
        f"CREATE INDEX {name} ON payment_past{early.columns}",
        f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{name}'::regclass",
    )
    await asyncio.gather(upgrade(old), upgrade(old))
    await require_equal(old, plain)


async def test_month_that_is_created_during_a_build_gets_the_index(current):
    """The parent's index exists then, and is complete only with that of the new month."""
    await postgres.run_commands(
        current.dsn, f"CREATE INDEX {_NEW.name} ON ONLY payment{_NEW.columns}"
    )
    store = await open_store(current)
    await store.extend_partitions(2_000_000_000_000_000)
    await store.close()
    await build_indexes(current, schema.HEAD, [_NEW], 60_000)
    assert await postgres.list_rows(current.dsn, _INVALID) == []
    for table, names in (await read_tree(current)).items():
        shapes = await read_shapes(current, [table, *names])
        assert all(shape == shapes[table] for shape in shapes.values())


async def test_migration_alters_all_partitions_in_one_transaction(current):
    """These are the statements that migrations use."""
    raw = await asyncpg.connect(current.dsn)
    async with raw.transaction():
        await raw.execute(
            "ALTER TABLE payment ADD COLUMN later BIGINT DEFAULT 7 NOT NULL;"
            "ALTER TABLE payment DROP CONSTRAINT ck_payment_status;"
            "ALTER TABLE payment ADD CONSTRAINT ck_payment_status CHECK (status <> '');"
            "CREATE UNIQUE INDEX uq_payment_later ON payment (id, later);"
            "DROP INDEX ix_payment_tx_id;"
            "ALTER TABLE payment_option DROP COLUMN head"
        )
    await raw.close()
    for table, names in (await read_tree(current)).items():
        shapes = await read_shapes(current, [table, *names])
        assert all(shape == shapes[table] for shape in shapes.values())
    store = await open_store(current)
    payment = await put_payment(store, make_id(await get_database_month(current)))
    assert await store.payments.find(payment.id) == payment
    await store.close()
