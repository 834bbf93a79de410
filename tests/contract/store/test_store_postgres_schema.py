"""A new database has the tables that migrations make, however many processes begin at once."""

from __future__ import annotations

import asyncio
import logging

import asyncpg
import pytest
from florin_server.store.engine import schema
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.postgres import schema as tables
from florin_server.store.engine.query import StoreError
from florin_server.store.engine.where import Database
from florin_server.store.migrations import postgres as migrations
from florin_server.store.migrations.postgres import upgrade

from tests.support import postgres
from tests.support.released import RELEASED_SCHEMA
from tests.support.store_kit import created
from tests.support.until import until

pytestmark = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
)

_COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, column_default, numeric_precision
FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2
"""
_ORDER = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = 'public' ORDER BY table_name, ordinal_position
"""
_INDEXES = "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
_CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
"""


@pytest.fixture
async def empty(tmp_path):
    """A database without tables."""
    made = postgres.empty(tmp_path)
    yield made
    await postgres.forget(tmp_path)


async def shape(database: Database) -> list[set]:
    asked = [_COLUMNS, _INDEXES, _CONSTRAINTS, "SELECT version_num FROM alembic_version"]
    return [set(await postgres.rows(database.dsn, one)) for one in asked]


async def test_migrations_make_the_same_tables_as_a_new_database_gets(empty, tmp_path_factory):
    other = tmp_path_factory.mktemp("new")
    new = postgres.of(other)
    await postgres.commands(empty.dsn, schema.STAMP)
    await upgrade(empty)
    for made, wanted in zip(await shape(empty), await shape(new), strict=True):
        assert made ^ wanted == set()
    assert await postgres.rows(empty.dsn, _ORDER) == await postgres.rows(new.dsn, _ORDER)
    await postgres.forget(other)


async def test_an_older_database_is_migrated_by_the_first_who_comes(empty):
    await postgres.commands(empty.dsn, schema.STAMP)
    await upgrade(empty, "v0012")
    with pytest.raises(StoreError, match="v0012"):
        await tables.require(empty)
    stores = await asyncio.gather(*(open_store(empty) for _ in range(4)))
    for store in stores:
        await created(store)
        await store.close()
    await tables.require(empty)


async def test_migration_lets_others_work_while_a_long_read_keeps_a_table(
    empty, monkeypatch, caplog
):
    monkeypatch.setattr(migrations, "LOCK_MS", 50)
    monkeypatch.setattr(migrations, "_PAUSE_S", 0)
    caplog.set_level(logging.INFO)
    await postgres.commands(empty.dsn, schema.STAMP)
    await upgrade(empty, RELEASED_SCHEMA)
    reader = await asyncpg.connect(empty.dsn)
    async with reader.transaction():
        await reader.fetch("SELECT * FROM refund")
        migration = asyncio.create_task(upgrade(empty))
        await until(lambda: caplog.text.count("the migration waits") > 1)
        # an older process writes as if nothing was there
        await postgres.commands(empty.dsn, "INSERT INTO process (id, now_us) VALUES ('old', 1)")
    await migration
    await reader.close()
    await tables.require(empty)


async def test_migration_that_never_gets_its_tables_changes_nothing(empty, monkeypatch):
    for name, value in {"LOCK_MS": 10, "_PAUSE_S": 0, "_TRIES": 3}.items():
        monkeypatch.setattr(migrations, name, value)
    await postgres.commands(empty.dsn, schema.STAMP)
    await upgrade(empty, RELEASED_SCHEMA)
    reader = await asyncpg.connect(empty.dsn)
    async with reader.transaction():
        await reader.fetch("SELECT * FROM refund")
        with pytest.raises(StoreError, match="pg_stat_activity"):
            await upgrade(empty)
    await reader.close()
    with pytest.raises(StoreError, match=RELEASED_SCHEMA):
        await tables.require(empty)


async def test_of_those_who_begin_at_once_one_makes_the_tables(empty):
    stores = await asyncio.gather(*(open_store(empty) for _ in range(6)))
    of = await created(stores[0])
    for store in stores:
        assert await store.reader.payment(of.id) == of
        assert store.engine.startswith("PostgreSQL ")
        await store.close()


async def test_a_database_of_somebody_else_is_left_alone(empty):
    await postgres.commands(empty.dsn, "CREATE TABLE theirs (x int)")
    with pytest.raises(StoreError, match="not Florin's"):
        await open_store(empty)
    found = await postgres.rows(empty.dsn, "SELECT tablename FROM pg_tables ORDER BY 1")
    assert ("alembic_version",) not in found


async def test_a_database_of_a_newer_florin_is_left_alone(empty):
    await postgres.commands(empty.dsn, schema.STAMP, "INSERT INTO alembic_version VALUES ('v9999')")
    with pytest.raises(StoreError, match="newer Florin"):
        await open_store(empty)


async def test_a_database_that_knows_no_case_of_letters_is_refused(tmp_path):
    made = postgres.empty(tmp_path, "ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'")
    with pytest.raises(StoreError, match="CREATE DATABASE"):
        await open_store(made)
    await postgres.forget(tmp_path)


async def test_a_password_is_told_to_nobody(empty):
    shown = Database("postgresql://florin:secret@db.example:5433/shop?sslmode=require")
    assert str(shown) == "PostgreSQL at db.example:5433, database shop"
    assert "secret" not in f"{shown!r} {shown}"
    wrong = Database("postgresql://florin:secret@127.0.0.1:1/shop")
    with pytest.raises(StoreError) as caught:
        await open_store(wrong)
    assert "secret" not in f"{caught.value} {caught.value.__cause__}"
