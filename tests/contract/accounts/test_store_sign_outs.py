"""Test what the store knows of console sessions: sign-outs and used tickets."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from florin_server.accounts.store import sign_outs
from florin_server.db.engine import schema

from tests.support.store_factories import NOW_US, execute_beside, open_engine_store
from tests.support.store_migrations import migrate_file

LIFE_US = 8 * 3600 * 1_000_000
SESSIONS = "SELECT session_id, ended_at_us, expires_at_us FROM console_session ORDER BY session_id"
KEYS = "SELECT key, created_at_us, expires_at_us FROM idempotency"
PUT_KEY = "INSERT INTO idempotency VALUES (?, ?, x'', x'', 1, 100)"


async def test_session_is_ended_for_the_rest_of_its_life(store, tmp_path):
    assert not await store.read(sign_outs.has_ended("one"))
    await store.write(sign_outs.end("one", NOW_US, LIFE_US))
    await store.write(sign_outs.end("one", NOW_US + 1, LIFE_US))
    assert await store.read(sign_outs.has_ended("one"))
    assert not await store.read(sign_outs.has_ended("two"))
    rows = await execute_beside(store, tmp_path, SESSIONS)
    assert rows == [("one", NOW_US + 1, NOW_US + 1 + LIFE_US)]
    assert await execute_beside(store, tmp_path, KEYS) == []


async def test_ticket_is_used_once_and_its_session_can_be_ended(store):
    assert await store.write(sign_outs.use_ticket("one", NOW_US + 1))
    assert not await store.write(sign_outs.use_ticket("one", NOW_US + 2))
    assert not await store.read(sign_outs.has_ended("one"))
    await store.write(sign_outs.end("one", NOW_US, LIFE_US))
    assert await store.read(sign_outs.has_ended("one"))
    # kept until its cookies are invalid, not its ticket only
    assert await store.write(sign_outs.forget_lapsed(NOW_US + 1, 10)) == 0


async def test_ticket_of_an_ended_session_is_refused(store):
    await store.write(sign_outs.end("one", NOW_US, LIFE_US))
    assert not await store.write(sign_outs.use_ticket("one", NOW_US + 1))


async def test_lapsed_sessions_are_deleted_in_batches(store, tmp_path):
    for session_id in ("one", "two", "three"):
        await store.write(sign_outs.use_ticket(session_id, NOW_US))
    await store.write(sign_outs.end("four", NOW_US, LIFE_US))
    assert await store.write(sign_outs.forget_lapsed(NOW_US - 1, 2)) == 0
    assert await store.write(sign_outs.forget_lapsed(NOW_US, 2)) == 2
    assert await store.write(sign_outs.forget_lapsed(NOW_US, 2)) == 1
    rows = await execute_beside(store, tmp_path, SESSIONS)
    assert [session_id for session_id, *_ in rows] == ["four"]


async def test_sign_outs_of_an_older_store_are_valid_after_the_migration_and_back(tmp_path):
    path = tmp_path / "florin.db"
    path.touch(mode=0o600)
    migrate_file(path, "v0025")
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute(PUT_KEY, ("console session", "theirs"))
        raw.execute(PUT_KEY, ("par_1 key", "theirs too"))
    migrate_file(path, schema.HEAD)
    async with open_engine_store("sqlite", tmp_path) as store:
        assert await store.read(sign_outs.has_ended("theirs"))
        assert not await store.read(sign_outs.has_ended("theirs too"))
        await store.write(sign_outs.end("ours", 2, 100))
        await store.write(sign_outs.use_ticket("ticket", 100))
    migrate_file(path, "v0025", down=True)
    with closing(sqlite3.connect(path)) as raw:
        scope = " WHERE scope = 'console session' ORDER BY key"
        assert raw.execute(KEYS + scope).fetchall() == [("ours", 2, 102), ("theirs", 1, 100)]
