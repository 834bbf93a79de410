"""A store of a newer schema is used if that one allows it: a release back needs no backup then.

And migrations since the last release only add, so that its processes work on while others roll.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from florin_server.boot import copies
from florin_server.boot.home import Refused
from florin_server.store.engine import migrating, schema
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.query import StoreError

from tests.support.migrated import moved, statements_between
from tests.support.released import RELEASED_SCHEMA
from tests.support.store_kit import beside, created, opened

# statements that only add, or loosen what was refused
_EXPANDS = (
    r"CREATE TABLE ",
    r"CREATE (UNIQUE )?INDEX ",
    r"ALTER TABLE \w+ ADD COLUMN \w+ [A-Z]+(\(\d+\))?( DEFAULT '[^']*' NOT NULL)?$",
    r"UPDATE alembic_version ",
    r"INSERT INTO installation ",
)
# what else there is since the last release, and why its processes do not mind
_ALLOWED = {
    "UPDATE refund SET payment_value": "a column that they do not know",
    "UPDATE refund_event SET refund_id": "a column that they do not know",
    "DROP INDEX uq_refund_payment_id": "replaced by one of payment_id and ordinal, and theirs is 1",
}


@pytest.fixture
def place(store, tmp_path):
    """Where the store is, for others that open it."""
    return tmp_path / "florin.db" if store.exclusive else store._database  # noqa: SLF001


async def becomes_newer(store, folder: Path, compatible_from: str) -> None:
    await beside(store, folder, "ALTER TABLE payment ADD COLUMN later TEXT")
    stamp = f"version_num = 'v9999', compatible_from = '{compatible_from}'"
    await beside(store, folder, f"UPDATE alembic_version SET {stamp}")


async def test_newer_store_that_allows_it_is_used(store, place, tmp_path):
    await becomes_newer(store, tmp_path, schema.HEAD)
    await store.close()
    again = await open_store(place)
    of = await created(again)
    assert await again.reader.payment(of.id) == of
    await again.close()
    found = await asyncio.to_thread(migrating.standing, place)
    assert (found.version, found.usable, found.is_newer) == ("v9999", True, True)
    assert await asyncio.to_thread(migrating.preview, place) == []


@pytest.mark.parametrize("compatible_from", ["", "v9998"])
async def test_newer_store_that_does_not_allow_it_is_refused(
    store, place, tmp_path, compatible_from
):
    await becomes_newer(store, tmp_path, compatible_from)
    await store.close()
    with pytest.raises(StoreError, match="newer Florin"):
        await open_store(place)
    assert not (await asyncio.to_thread(migrating.standing, place)).usable


async def test_newer_store_is_copied_by_newer_release_only(store, place, tmp_path):
    await becomes_newer(store, tmp_path, schema.HEAD)
    await store.close()
    with pytest.raises(Refused, match="copy it with that one"):
        await asyncio.to_thread(copies.backup, place, tmp_path / "copy.db")
    with pytest.raises(Refused, match="copy it with that one"):
        await copies.restore(place, tmp_path / "other.db")
    assert not (tmp_path / "copy.db").exists()


async def test_migrated_store_allows_what_a_new_one_allows(tmp_path):
    (tmp_path / "florin.db").touch(mode=0o600)
    moved(tmp_path / "florin.db", RELEASED_SCHEMA)
    async with opened("sqlite", tmp_path) as store:
        stamp = await beside(store, tmp_path, "SELECT * FROM alembic_version")
    assert stamp == [(schema.HEAD, schema.COMPATIBLE_FROM)]


def test_migrations_since_the_last_release_only_add():
    statements = statements_between(RELEASED_SCHEMA, schema.HEAD)
    assert len(statements) > 10
    tables = {found[1] for one in statements if (found := re.match(r"CREATE TABLE (\w+)", one))}
    for one in statements:
        if any(re.match(pattern, one) for pattern in _EXPANDS):
            continue
        if any(one.startswith(allowed) for allowed in _ALLOWED):
            continue
        # tables that are new hold nothing that an older process reads
        named = re.match(r"(?:UPDATE|INSERT INTO) (\w+)", one)
        assert named is not None, one
        assert named[1] in tables, one


def test_every_allowed_statement_is_still_there():
    statements = statements_between(RELEASED_SCHEMA, schema.HEAD)
    for allowed in _ALLOWED:
        assert any(one.startswith(allowed) for one in statements), allowed
