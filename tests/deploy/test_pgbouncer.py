"""PgBouncer in front of the store: session pooling works, transaction pooling is refused."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

import asyncpg
import pytest
from florin_server.app.home import StateFolder
from florin_server.db.engine.postgres.connection import PostgresConnection
from florin_server.db.engine.postgres.session import SessionError, require_sessions
from florin_server.db.engine.query import StoreError, StoreUnavailable
from florin_server.db.engine.where import DatabaseConfig
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import payments
from pydantic import SecretStr

from tests.deploy.pooler import Pooler, running
from tests.support import postgres
from tests.support.command import ROOT, run_florin
from tests.support.service_harness import ORDER, open_service
from tests.support.store_factories import create_payment, make_payment
from tests.support.until import wait_until

pytestmark = [
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
    ),
    pytest.mark.long,
]
LIMITS = {
    "default_transaction_read_only": "off",
    "statement_timeout": "10000",
    "lock_timeout": "2000",
    "idle_in_transaction_session_timeout": "10000",
    "synchronous_commit": "on",
    "jit": "off",
}
SETTINGS = ["default_transaction_isolation", *LIMITS]


@pytest.fixture
async def database(tmp_path):
    yield postgres.get_database(tmp_path)
    await postgres.drop_database(tmp_path)


def through(pooler: Pooler, database: DatabaseConfig, **changes) -> DatabaseConfig:
    return replace(database, dsn=pooler.dsn(database), **changes)


async def settings_of(database: DatabaseConfig, kind) -> tuple[dict[str, str], str]:
    """Return the server's settings for a session of the store, and for a transaction in it."""
    connection = await PostgresConnection.connect(database, kind)
    try:
        # bypass the store: no statement of its own reads settings
        raw = connection._raw  # noqa: SLF001
        text = "SELECT name, setting FROM pg_settings WHERE name = ANY($1)"
        settings = dict(await raw.fetch(text, SETTINGS))
        await connection.begin()
        level = await raw.fetchval("SELECT current_setting('transaction_isolation')")
        await connection.rollback()
        return settings, level
    finally:
        await connection.close()


@pytest.mark.parametrize("serializable", [False, True])
async def test_sessions_keep_every_guard_behind_a_default_pgbouncer(database, serializable):
    async with running() as pooler:
        pooled = through(pooler, database, serializable=serializable)
        level = "serializable" if serializable else "read committed"
        expected = {**LIMITS, "default_transaction_isolation": level}
        assert await settings_of(pooled, "write") == (expected, level)
        reads = {
            **LIMITS,
            "default_transaction_isolation": "repeatable read",
            "default_transaction_read_only": "on",
        }
        assert await settings_of(pooled, "read") == (reads, "repeatable read")
        assert await settings_of(database, "read") == (reads, "repeatable read")


async def test_documented_lines_of_pgbouncer_keep_sessions(database):
    text = (ROOT / "docs/postgresql.md").read_text()
    block = text.partition("[pgbouncer]\n")[2].partition("```")[0]
    lines = [line for line in block.splitlines() if line and not line.startswith(";")]
    assert "pool_mode = session" in lines
    async with running(*lines) as pooler:
        assert await require_sessions(through(pooler, database))


async def test_serializable_writers_conflict_behind_pgbouncer(database):
    """Each of two transactions reads rows that the other writes: one of them must fail."""
    async with running() as pooler:
        store = await open_store(through(pooler, database, serializable=True))
        try:
            created_payments = [await create_payment(store) for _ in range(2)]
        finally:
            await store.close()
        pooled = through(pooler, database, serializable=True)
        both = [await PostgresConnection.connect(pooled, "write") for _ in range(2)]
        text = "UPDATE payment SET value = (SELECT sum(value) FROM payment WHERE id = $1) "
        for connection, own, other in zip(
            both, created_payments, created_payments[::-1], strict=True
        ):
            await connection.begin()
            raw = connection._raw  # noqa: SLF001
            await raw.execute(text + "WHERE id = $2", other.id, own.id)
        await both[0].commit()
        with pytest.raises(Exception, match="could not serialize"):
            await both[1].commit()
        for connection in both:
            connection.drop()


async def test_whole_service_takes_payments_through_pgbouncer(database, tmp_path):
    async with running() as pooler:
        address = SecretStr(pooler.dsn(database))
        async with open_service(tmp_path / "home", store=address) as desk:
            created_payment = await desk.rest.create(ORDER)
            answer = await desk.rest.detail(created_payment["paymentId"])
            assert answer["status"] == "requires_action"
            # notifications arrive too: LISTEN needs a session
            notices = desk.service.app.store.notification_channel
            assert notices is not None
            await notices.publish("")


@pytest.mark.parametrize("mode", ["session", "transaction"])
async def test_doctor_reports_whether_pooler_keeps_sessions(database, tmp_path, mode):
    async with running(f"pool_mode = {mode}") as pooler:
        address = pooler.dsn(database)
        home = tmp_path / "home"
        StateFolder(home).open().get_or_create_secrets()
        done = await asyncio.to_thread(
            partial(run_florin, "doctor", "--json", home=home, FLORIN_STORE=address)
        )
        problems = {check["check"]: check["problem"] for check in json.loads(done.out)["checks"]}
        subject = (
            f"PostgreSQL at 127.0.0.1:{pooler.port}, database {postgres.get_database_name(address)}"
            " through a pooler keeps sessions apart"
        )
        assert ("pool_mode = session" in (problems[subject] or "")) == (mode == "transaction")


@pytest.mark.parametrize(
    "lines",
    [
        # the settings with which version 0.3 started
        ("pool_mode = transaction", "ignore_startup_parameters = jit,statement_timeout"),
        ("pool_mode = transaction",),
        ("pool_mode = transaction", "server_round_robin = 1", "min_pool_size = 5"),
        ("pool_mode = transaction", "default_pool_size = 1"),
        ("pool_mode = statement",),
    ],
)
async def test_pooler_that_shares_connections_is_refused_at_start(database, lines):
    async with running(*lines) as pooler:
        with pytest.raises(StoreError, match="pool_mode = session"):
            await open_store(through(pooler, database))


async def test_busy_transaction_pooler_is_refused_every_time(database):
    """Other clients use the pooler meanwhile, so that its connections change hands constantly."""
    async with running("pool_mode = transaction", "default_pool_size = 8") as pooler:
        pooled = through(pooler, database)
        ended = asyncio.Event()

        async def disturb() -> None:
            while not ended.is_set():
                await postgres.run_commands(pooled.dsn, *["SELECT 1"] * 20)

        tasks = [asyncio.create_task(disturb()) for _ in range(6)]
        try:
            for _ in range(20):
                with pytest.raises(StoreError, match="pool_mode = session"):
                    await open_store(pooled)
        finally:
            ended.set()
            await asyncio.gather(*tasks)


async def test_pooler_that_changes_to_transactions_later_writes_nothing_astray(database):
    async with running("pool_mode = session") as pooler, AsyncExitStack() as held:
        pooled = through(pooler, database)
        store = await open_store(pooled)
        held.push_async_callback(store.close)
        await create_payment(store)
        pooler.change("pool_mode = session", "pool_mode = transaction")

        async def refused() -> bool:
            try:
                await require_sessions(pooled)
            except SessionError:
                return True
            return False

        await wait_until(refused)
        # open sessions keep their connection up to the end of their next transaction
        await create_payment(store)
        # other clients have every server connection that sessions had
        for _ in range(8):
            raw = await asyncpg.connect(pooled.dsn, statement_cache_size=0)
            held.push_async_callback(raw.close)
            await raw.execute("BEGIN")
        failed = make_payment()
        with pytest.raises(StoreUnavailable, match="pool_mode = session"):
            await store.write(payments.create(failed))
        there = "SELECT count(*) FROM payment WHERE id = $1"
        assert await postgres.list_rows(database.dsn, there, failed.id) == [(0,)]
