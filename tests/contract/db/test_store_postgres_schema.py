"""Test that a new database gets the migrations' tables, however many processes start at once."""

from __future__ import annotations

import asyncio
import logging

import asyncpg
import pytest
from florin_server.db.engine import schema
from florin_server.db.engine.postgres import schema as tables
from florin_server.db.engine.postgres.schema_lock import LOCK_MS, format_table_locks
from florin_server.db.engine.query import StoreError
from florin_server.db.engine.where import DatabaseConfig
from florin_server.db.migrations import OFFLINE_FROM, list_offline_statements
from florin_server.db.migrations import postgres as migrations
from florin_server.db.migrations.changed_tables import list_changed_tables
from florin_server.db.migrations.indexes import build_indexes, split_indexes
from florin_server.db.migrations.postgres import upgrade
from florin_server.money.open_store import open_store

from tests.support import postgres
from tests.support.released_versions import RELEASED_SCHEMA
from tests.support.store_factories import create_payment
from tests.support.store_migrations import move_database
from tests.support.until import wait_until

pytestmark = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
)

_COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, column_default, numeric_precision
FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2
"""
_ORDER = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = 'public' ORDER BY table_name, ordinal_position
"""
_INVALID = "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid"
_INDEXES = "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
_CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
"""
# this session's locks on tables that existed before, for which a call can wait
_LOCKS = """
SELECT relation::regclass::text, mode FROM pg_locks JOIN pg_class ON pg_class.oid = relation
WHERE pid = pg_backend_pid() AND relkind IN ('r', 'p') AND mode <> 'AccessShareLock'
AND relation = ANY($1::oid[])
"""


@pytest.fixture
async def empty(tmp_path):
    """Create a database without tables."""
    database = postgres.create_empty_database(tmp_path)
    yield database
    await postgres.drop_database(tmp_path)


async def shape(database: DatabaseConfig) -> list[set]:
    requests = [_COLUMNS, _INDEXES, _CONSTRAINTS, "SELECT version_num FROM alembic_version"]
    return [set(await postgres.list_rows(database.dsn, text)) for text in requests]


async def test_migrations_make_the_same_tables_as_a_new_database_gets(empty, tmp_path_factory):
    other = tmp_path_factory.mktemp("new")
    new = postgres.get_database(other)
    await postgres.run_commands(empty.dsn, schema.VERSION_TABLE)
    await upgrade(empty)
    for created, expected in zip(await shape(empty), await shape(new), strict=True):
        assert created ^ expected == set()
    assert await postgres.list_rows(empty.dsn, _ORDER) == await postgres.list_rows(new.dsn, _ORDER)
    await postgres.drop_database(other)


async def test_the_script_of_migrations_makes_the_same_tables(empty, tmp_path_factory):
    other = tmp_path_factory.mktemp("step_by_step")
    stepped = postgres.create_empty_database(other)
    for database in (empty, stepped):
        await postgres.run_commands(database.dsn, schema.VERSION_TABLE)
        await upgrade(database, OFFLINE_FROM)
    await move_database(stepped.dsn, "head")
    await upgrade(empty)
    assert await shape(empty) == await shape(stepped)
    assert await migrations.preview(empty) == []
    await postgres.drop_database(other)


async def test_calls_wait_for_one_request_of_a_migration(empty, monkeypatch):
    await postgres.run_commands(empty.dsn, schema.VERSION_TABLE)
    await upgrade(empty, RELEASED_SCHEMA)
    requests: list[str] = []
    opened = asyncpg.connect

    async def connect(*args, **options):
        connection = await opened(*args, **options)
        connection.add_query_logger(lambda record: requests.append(record.query))
        return connection

    monkeypatch.setattr(asyncpg, "connect", connect)
    await upgrade(empty)
    (changes,) = [request for request in requests if "ALTER TABLE" in request]
    after = requests[requests.index(changes) + 1 :]
    assert [request.rstrip(";") for request in after] == ["COMMIT"]
    # what reads a large table was built before, while others wrote to it
    built = "CREATE INDEX CONCURRENTLY IF NOT EXISTS ix_payment_tx_id ON payment (tx_id)"
    assert any(request.startswith(built) for request in requests[: requests.index(changes)])


async def test_an_interrupted_build_of_an_index_is_repeated(empty):
    await postgres.run_commands(empty.dsn, schema.VERSION_TABLE)
    await upgrade(empty, RELEASED_SCHEMA)
    await postgres.run_commands(
        empty.dsn,
        "CREATE INDEX ix_payment_tx_id ON payment (tx_id) WHERE tx_id IS NOT NULL",
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_payment_tx_id'::regclass",
    )
    # several processes start at once, and an older one writes
    writer = await asyncpg.connect(empty.dsn)
    async with writer.transaction():
        await writer.execute("INSERT INTO process (id, now_us) VALUES ('old', 1)")
        await asyncio.gather(*(build_all(empty) for _ in range(3)))
    await writer.close()
    await upgrade(empty)
    assert await postgres.list_rows(empty.dsn, _INVALID) == []
    await tables.require_current(empty)


async def build_all(database: DatabaseConfig) -> None:
    statements = list_offline_statements("postgresql", RELEASED_SCHEMA, "head")
    await build_indexes(database, RELEASED_SCHEMA, split_indexes(statements)[0], 60_000)


async def test_older_database_is_migrated_by_the_first_process(empty):
    await postgres.run_commands(empty.dsn, schema.VERSION_TABLE)
    await upgrade(empty, "v0012")
    with pytest.raises(StoreError, match="v0012"):
        await tables.require_current(empty)
    stores = await asyncio.gather(*(open_store(empty) for _ in range(4)))
    for store in stores:
        await create_payment(store)
        await store.close()
    await tables.require_current(empty)


async def test_migration_does_not_block_writers_while_a_long_read_holds_a_table(
    empty, monkeypatch, caplog
):
    monkeypatch.setattr(migrations, "LOCK_MS", 50)
    monkeypatch.setattr(migrations, "_PAUSE_S", 0)
    caplog.set_level(logging.INFO)
    await postgres.run_commands(empty.dsn, schema.VERSION_TABLE)
    await upgrade(empty, RELEASED_SCHEMA)
    await build_all(empty)
    reader = await asyncpg.connect(empty.dsn)
    async with reader.transaction():
        await reader.fetch("SELECT * FROM refund")
        migration = asyncio.create_task(upgrade(empty))
        await wait_until(lambda: caplog.text.count("the migration waits") > 1)
        # an older process keeps writing as before
        await postgres.run_commands(empty.dsn, "INSERT INTO process (id, now_us) VALUES ('old', 1)")
    await migration
    await reader.close()
    await tables.require_current(empty)


async def test_migration_locks_all_tables_before_it_changes_the_first(empty):
    """Otherwise calls wait for one table while the migration waits for the next."""
    await postgres.run_commands(empty.dsn, schema.VERSION_TABLE)
    await upgrade(empty, RELEASED_SCHEMA)
    statements = list_offline_statements("postgresql", RELEASED_SCHEMA, "head")
    changed = list_changed_tables(statements)
    connection = await asyncpg.connect(empty.dsn)
    async with connection.transaction():
        rows = await connection.fetch(
            "SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        )
        existing = [row["oid"] for row in rows]
        await connection.execute(format_table_locks(changed, "ACCESS EXCLUSIVE", LOCK_MS))
        await connection.execute(";\n".join(statements))
        locks = await connection.fetch(_LOCKS, existing)
        assert {table for table, _ in locks} == set(changed)
        assert await connection.fetchval("SELECT current_setting('statement_timeout')") == "0"
    await connection.close()


async def test_migration_that_never_gets_its_tables_changes_nothing(empty, monkeypatch):
    for name, value in {"LOCK_MS": 10, "_PAUSE_S": 0, "_TRIES": 3}.items():
        monkeypatch.setattr(migrations, name, value)
    await postgres.run_commands(empty.dsn, schema.VERSION_TABLE)
    await upgrade(empty, RELEASED_SCHEMA)
    await build_all(empty)
    reader = await asyncpg.connect(empty.dsn)
    async with reader.transaction():
        await reader.fetch("SELECT * FROM refund")
        with pytest.raises(StoreError, match="pg_stat_activity"):
            await upgrade(empty)
    await reader.close()
    with pytest.raises(StoreError, match=RELEASED_SCHEMA):
        await tables.require_current(empty)


async def test_tables_are_created_once_by_concurrent_processes(empty):
    stores = await asyncio.gather(*(open_store(empty) for _ in range(6)))
    of = await create_payment(stores[0])
    for store in stores:
        assert await store.payments.find(of.id) == of
        assert store.engine.startswith("PostgreSQL ")
        await store.close()


async def test_foreign_database_is_refused_unchanged(empty):
    await postgres.run_commands(empty.dsn, "CREATE TABLE theirs (x int)")
    with pytest.raises(StoreError, match="not Florin's"):
        await open_store(empty)
    rows = await postgres.list_rows(empty.dsn, "SELECT tablename FROM pg_tables ORDER BY 1")
    assert ("alembic_version",) not in rows


async def test_a_database_of_a_newer_florin_is_left_alone(empty):
    await postgres.run_commands(
        empty.dsn, schema.VERSION_TABLE, "INSERT INTO alembic_version VALUES ('v9999')"
    )
    with pytest.raises(StoreError, match="newer Florin"):
        await open_store(empty)


async def test_a_database_that_knows_no_case_of_letters_is_refused(tmp_path):
    database = postgres.create_empty_database(
        tmp_path, "ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    with pytest.raises(StoreError, match="CREATE DATABASE"):
        await open_store(database)
    await postgres.drop_database(tmp_path)


async def test_database_password_is_never_shown(empty):
    shown = DatabaseConfig("postgresql://florin:secret@db.example:5433/shop?sslmode=require")
    assert str(shown) == "PostgreSQL at db.example:5433, database shop"
    assert "secret" not in f"{shown!r} {shown}"
    wrong = DatabaseConfig("postgresql://florin:secret@127.0.0.1:1/shop")
    with pytest.raises(StoreError) as caught:
        await open_store(wrong)
    assert "secret" not in f"{caught.value} {caught.value.__cause__}"
