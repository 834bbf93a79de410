"""Test copies between engines: same rows, and the schema is reported and created."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from florin_server.app import copies
from florin_server.app.home import SetupError
from florin_server.base.clock import SystemClock
from florin_server.db.engine import migrating, schema
from florin_server.db.engine.query import StoreError
from florin_server.db.engine.reading import SqliteStoreReader
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import payments
from florin_server.operations.store import executors, leases

from tests.support import postgres
from tests.support.export_stores import ExportStoreBuilder, make_payments
from tests.support.store_factories import (
    ENGINES,
    NOW_US,
    acquire_lease,
    create_payment,
    make_option,
    make_payment,
)
from tests.support.store_migrations import migrate_file


def place(engine: str, folder: Path):
    return (
        folder / "florin.db" if engine == postgres.SQLITE else postgres.get_database(folder, engine)
    )


@pytest.fixture
async def folders(tmp_path):
    created = {name: tmp_path / name for name in ("one", "other")}
    for item in created.values():
        item.mkdir()
    yield created
    for item in created.values():
        await postgres.drop_database(item)


_COUNTED = "SELECT reltuples::int FROM pg_class WHERE relname = 'payment_option'"


async def filled(where) -> int:
    store = await open_store(where)
    shop = ExportStoreBuilder(epoch=await acquire_lease(store))
    for _ in range(30):
        await store.write(make_payments(shop, 1))
    many_options = make_payment()
    await store.write(payments.create(many_options))
    new = [make_option(many_options, id=f"opt_{n:04}") for n in range(1200)]
    await store.write(payments.put_options(new))
    await store.close()
    return shop.count


@pytest.mark.parametrize("engine", ENGINES)
async def test_backup_is_taken_while_the_store_is_used_and_restored_elsewhere(engine, folders):
    where, file = place(engine, folders["one"]), folders["one"] / "backup.db"
    await filled(where)
    store, before_us = await open_store(where), SystemClock().now_us()
    copied = await asyncio.to_thread(copies.backup, where, file)
    assert copied["payment_option"].rows > 1200
    late = await create_payment(store)
    # the copy knows that it is a copy; the original does not know of it
    assert await store.write(executors.pause_on_copy(["eip155:1:0x00"], NOW_US)) is None
    await store.close()
    assert file.stat().st_mode & 0o777 == 0o600
    assert {item.name for item in file.parent.glob("backup*")} == {"backup.db"}
    for other in ENGINES:
        target = folders["other"] / other
        target.mkdir()
        assert await copies.restore(file, place(other, target)) == copied
        again = await open_store(place(other, target))
        assert await again.payments.find(late.id) is None
        copied_at_us = await again.write(executors.pause_on_copy(["eip155:1:0x00"], NOW_US))
        assert before_us <= copied_at_us <= SystemClock().now_us()
        assert await again.read(executors.list_pauses()) == {"eip155:1:0x00": NOW_US}
        # no process of the original's works on the copy
        assert [lease.holder for lease in await again.read(leases.list_leases())] == [""]
        if other != postgres.SQLITE:
            # the planner's statistics cover the copied rows
            ((existing,),) = await postgres.list_rows(postgres.get_database(target).dsn, _COUNTED)
            assert existing == copied["payment_option"].rows
        await create_payment(again)
        await again.close()
        await postgres.drop_database(target)
    with pytest.raises(SetupError, match="exists already"):
        await asyncio.to_thread(copies.backup, where, file)


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_store_with_rows_is_not_filled(engine, folders):
    where, to = folders["one"] / "florin.db", place(engine, folders["other"])
    for item in (where, to):
        await filled(item)
    with pytest.raises(SetupError, match="contains rows"):
        await copies.restore(where, to)
    with pytest.raises(SetupError, match="no store exists at"):
        await copies.restore(folders["one"] / "nothing.db", to)


@pytest.mark.parametrize("engine", ENGINES)
async def test_schema_status_is_reported_previewed_and_created(engine, folders):
    where = folders["one"] / "florin.db"
    if engine != postgres.SQLITE:
        where = postgres.create_empty_database(folders["one"])
    status = await asyncio.to_thread(migrating.get_status, where)
    assert (status.version, status.target_version) == (None, schema.HEAD)
    thread = await asyncio.to_thread(migrating.list_statements, where)
    assert any(text.lstrip().startswith("CREATE TABLE payment ") for text in thread)
    await asyncio.to_thread(migrating.upgrade, where)
    assert (await asyncio.to_thread(migrating.get_status, where)).version == schema.HEAD
    assert await asyncio.to_thread(migrating.list_statements, where) == []


async def test_an_older_file_is_previewed_without_being_changed(tmp_path):
    path = tmp_path / "florin.db"
    path.touch(mode=0o600)
    migrate_file(path, "v0012")
    statements = migrating.list_statements(path)
    assert any("chain_tx_item" in text for text in statements)
    assert migrating.get_status(path).version == "v0012"
    migrating.upgrade(path)
    assert migrating.get_status(path).version == schema.HEAD
    with closing(SqliteStoreReader(path)):
        pass


async def test_an_older_database_is_previewed_without_being_changed(folders):
    if postgres.POSTGRES not in ENGINES:
        pytest.skip("PostgreSQL is not selected")
    from florin_server.db.migrations.postgres import upgrade

    where = postgres.create_empty_database(folders["one"])
    await postgres.run_commands(where.dsn, schema.VERSION_TABLE)
    await upgrade(where, "v0012")
    thread = await asyncio.to_thread(migrating.list_statements, where)
    assert any("chain_tx_item" in text for text in thread)
    assert (await asyncio.to_thread(migrating.get_status, where)).version == "v0012"


def test_a_newer_schema_is_refused_and_stays(tmp_path):
    path = tmp_path / "florin.db"
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        raw.execute("INSERT INTO alembic_version VALUES ('v9999')")
    for change in (migrating.upgrade, migrating.list_statements):
        with pytest.raises(StoreError, match="newer Florin"):
            change(path)
    assert migrating.get_status(path).version == "v9999"
