"""Test that a release works on a newer schema which allows it, so a rollback needs no backup.

Migrations since the last release only add, so that its processes keep working during an upgrade.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from florin_server.app import copies
from florin_server.app.home import SetupError
from florin_server.db.engine import migrating, schema
from florin_server.db.engine.query import StoreError
from florin_server.money.open_store import open_store

from tests.support.released_versions import RELEASED_SCHEMA
from tests.support.store_factories import create_payment, execute_beside, open_engine_store
from tests.support.store_migrations import migrate_file, statements_between

# statements that only add, or loosen a constraint
_EXPANDS = (
    r"CREATE TABLE ",
    r"CREATE (UNIQUE )?INDEX ",
    r"ALTER TABLE \w+ ADD COLUMN \w+ [A-Z]+(\(\d+\))?( DEFAULT '[^']*' NOT NULL)?$",
    r"UPDATE alembic_version ",
    r"INSERT INTO installation ",
)
# other statements since the last release, and why its processes do not mind
_ALLOWED = {
    "UPDATE refund SET payment_value": "a column that they do not know",
    "UPDATE refund_event SET refund_id": "a column that they do not know",
    "DROP INDEX uq_refund_payment_id": "replaced by one of payment_id and ordinal, and theirs is 1",
    # to drop a foreign key of a file, which one process has alone
    "DROP TABLE chain_tx_item": "created again with all rows, and with one constraint less",
    "INSERT INTO chain_tx_item": "all rows of the table that was dropped",
}


@pytest.fixture
def place(store, tmp_path):
    """Return where others can open the store."""
    return tmp_path / "florin.db" if store.is_exclusive else store._database  # noqa: SLF001


async def becomes_newer(store, folder: Path, compatible_from: str) -> None:
    await execute_beside(store, folder, "ALTER TABLE payment ADD COLUMN later TEXT")
    stamp = f"version_num = 'v9999', compatible_from = '{compatible_from}'"
    await execute_beside(store, folder, f"UPDATE alembic_version SET {stamp}")


async def test_newer_store_that_allows_it_is_used(store, place, tmp_path):
    await becomes_newer(store, tmp_path, schema.HEAD)
    await store.close()
    again = await open_store(place)
    of = await create_payment(again)
    assert await again.payments.find(of.id) == of
    await again.close()
    status = await asyncio.to_thread(migrating.get_status, place)
    assert (status.version, status.usable, status.is_newer) == ("v9999", True, True)
    assert await asyncio.to_thread(migrating.list_statements, place) == []


@pytest.mark.parametrize("compatible_from", ["", "v9998"])
async def test_newer_store_that_does_not_allow_it_is_refused(
    store, place, tmp_path, compatible_from
):
    await becomes_newer(store, tmp_path, compatible_from)
    await store.close()
    with pytest.raises(StoreError, match="newer Florin"):
        await open_store(place)
    assert not (await asyncio.to_thread(migrating.get_status, place)).usable


async def test_newer_store_is_copied_by_newer_release_only(store, place, tmp_path):
    await becomes_newer(store, tmp_path, schema.HEAD)
    await store.close()
    with pytest.raises(SetupError, match="copy it with that release"):
        await asyncio.to_thread(copies.backup, place, tmp_path / "copy.db")
    with pytest.raises(SetupError, match="copy it with that release"):
        await copies.restore(place, tmp_path / "other.db")
    assert not (tmp_path / "copy.db").exists()


async def test_migrated_store_has_the_same_compatibility_as_a_new_store(tmp_path):
    (tmp_path / "florin.db").touch(mode=0o600)
    migrate_file(tmp_path / "florin.db", RELEASED_SCHEMA)
    async with open_engine_store("sqlite", tmp_path) as store:
        stamp = await execute_beside(store, tmp_path, "SELECT * FROM alembic_version")
    assert stamp == [(schema.HEAD, schema.COMPATIBLE_FROM)]


def test_migrations_since_the_last_release_only_add():
    statements = statements_between(RELEASED_SCHEMA, schema.HEAD)
    assert len(statements) > 10
    tables = {
        match[1]
        for each_statement in statements
        if (match := re.match(r"CREATE TABLE (\w+)", each_statement))
    }
    for statement in statements:
        if any(re.match(pattern, statement) for pattern in _EXPANDS):
            continue
        if any(statement.startswith(allowed) for allowed in _ALLOWED):
            continue
        # new tables contain nothing that an older process reads
        named = re.match(r"(?:UPDATE|INSERT INTO) (\w+)", statement)
        assert named is not None, statement
        assert named[1] in tables, statement


def test_every_allowed_statement_is_still_there():
    statements = statements_between(RELEASED_SCHEMA, schema.HEAD)
    for allowed in _ALLOWED:
        assert any(statement.startswith(allowed) for statement in statements), allowed
