"""Copies of a store hold the same rows on every engine; schemas are told and made."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from florin_server.boot import copies
from florin_server.boot.home import Refused
from florin_server.clock import SystemClock
from florin_server.store.engine import migrating, schema
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.query import StoreError
from florin_server.store.engine.reading import Reading
from florin_server.store.operator import executors
from florin_server.store.payments import payments

from tests.support import postgres
from tests.support.exported import Shop, many
from tests.support.migrated import moved
from tests.support.store_kit import ENGINES, NOW_US, created, leased, option, payment


def place(engine: str, folder: Path):
    return folder / "florin.db" if engine == postgres.SQLITE else postgres.of(folder, engine)


@pytest.fixture
async def folders(tmp_path):
    made = {name: tmp_path / name for name in ("one", "other")}
    for one in made.values():
        one.mkdir()
    yield made
    for one in made.values():
        await postgres.forget(one)


_COUNTED = "SELECT reltuples::int FROM pg_class WHERE relname = 'payment_option'"


async def filled(where) -> int:
    store = await open_store(where)
    shop = Shop(epoch=await leased(store))
    for _ in range(30):
        await store.write(many(shop, 1))
    many_options = payment()
    await store.write(payments.create(many_options))
    new = [option(many_options, id=f"opt_{n:04}") for n in range(1200)]
    await store.write(payments.put_options(new))
    await store.close()
    return shop.count


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_backup_is_made_while_the_store_is_used_and_restored_elsewhere(engine, folders):
    where, file = place(engine, folders["one"]), folders["one"] / "backup.db"
    await filled(where)
    store, before_us = await open_store(where), SystemClock().now_us()
    copied = await asyncio.to_thread(copies.backup, where, file)
    assert copied["payment_option"].rows > 1200
    late = await created(store)
    # the copy knows what it is, and whose copy it is does not
    assert await store.write(executors.begin(["eip155:1:0x00"], NOW_US)) is None
    await store.close()
    assert file.stat().st_mode & 0o777 == 0o600
    assert {one.name for one in file.parent.glob("backup*")} == {"backup.db"}
    for other in ENGINES:
        target = folders["other"] / other
        target.mkdir()
        assert await copies.restore(file, place(other, target)) == copied
        again = await open_store(place(other, target))
        assert await again.reader.payment(late.id) is None
        copied_at_us = await again.write(executors.begin(["eip155:1:0x00"], NOW_US))
        assert before_us <= copied_at_us <= SystemClock().now_us()
        assert await again.read(executors.pauses()) == {"eip155:1:0x00": NOW_US}
        if other != postgres.SQLITE:
            # plans are made for the rows that there are
            ((known,),) = await postgres.rows(postgres.of(target).dsn, _COUNTED)
            assert known == copied["payment_option"].rows
        await created(again)
        await again.close()
        await postgres.forget(target)
    with pytest.raises(Refused, match="there already"):
        await asyncio.to_thread(copies.backup, where, file)


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_store_with_rows_is_not_filled(engine, folders):
    where, to = folders["one"] / "florin.db", place(engine, folders["other"])
    for one in (where, to):
        await filled(one)
    with pytest.raises(Refused, match="has rows"):
        await copies.restore(where, to)
    with pytest.raises(Refused, match="no store at"):
        await copies.restore(folders["one"] / "nothing.db", to)


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_schema_is_told_previewed_and_made(engine, folders):
    where = folders["one"] / "florin.db"
    if engine != postgres.SQLITE:
        where = postgres.empty(folders["one"])
    told = await asyncio.to_thread(migrating.standing, where)
    assert (told.version, told.wanted) == (None, schema.HEAD)
    said = await asyncio.to_thread(migrating.preview, where)
    assert any(one.lstrip().startswith("CREATE TABLE payment ") for one in said)
    await asyncio.to_thread(migrating.upgrade, where)
    assert (await asyncio.to_thread(migrating.standing, where)).version == schema.HEAD
    assert await asyncio.to_thread(migrating.preview, where) == []


async def test_an_older_file_is_previewed_without_being_changed(tmp_path):
    path = tmp_path / "florin.db"
    path.touch(mode=0o600)
    moved(path, "v0012")
    said = migrating.preview(path)
    assert any("chain_tx_item" in one for one in said)
    assert migrating.standing(path).version == "v0012"
    migrating.upgrade(path)
    assert migrating.standing(path).version == schema.HEAD
    with closing(Reading(path)):
        pass


async def test_an_older_database_is_previewed_without_being_changed(folders):
    if postgres.POSTGRES not in ENGINES:
        pytest.skip("PostgreSQL was not asked for")
    from florin_server.store.migrations.postgres import upgrade

    where = postgres.empty(folders["one"])
    await postgres.commands(where.dsn, schema.STAMP)
    await upgrade(where, "v0012")
    said = await asyncio.to_thread(migrating.preview, where)
    assert any("chain_tx_item" in one for one in said)
    assert (await asyncio.to_thread(migrating.standing, where)).version == "v0012"


def test_a_newer_schema_is_refused_and_stays(tmp_path):
    path = tmp_path / "florin.db"
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        raw.execute("INSERT INTO alembic_version VALUES ('v9999')")
    for change in (migrating.upgrade, migrating.preview):
        with pytest.raises(StoreError, match="newer Florin"):
            change(path)
    assert migrating.standing(path).version == "v9999"
