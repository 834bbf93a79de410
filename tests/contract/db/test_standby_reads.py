"""Test reads from a standby: it is read while it is close behind, and otherwise not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, closing
from dataclasses import replace

import pytest
from florin.v1 import system_pb2
from florin_server.app.stores import open_export_reader
from florin_server.db.engine.query import Op, Statement, operation
from florin_server.limits import store as limits
from florin_server.money.open_store import open_store
from florin_server.settings import Settings
from pydantic import SecretStr
from sqlalchemy import func, select

from tests.support import postgres
from tests.support.operator import ask
from tests.support.service_harness import ORDER, open_service
from tests.support.store_factories import NOW_US
from tests.support.until import advance, wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
    ),
]
BEHIND_S = 11
_IN_RECOVERY = Statement(select(func.pg_is_in_recovery()), bool)


@operation
def is_standby() -> Op[bool]:
    """Return whether a standby runs this operation."""
    return (yield from _IN_RECOVERY.single())


@pytest.fixture(scope="module")
def server():
    server = postgres.ReplicatedServer()
    yield server
    server.end()


@asynccontextmanager
async def open_with_standby(server, process_id: str, dsn: str = ""):
    """Open a store with a standby, whose process has written that it is alive."""
    store = await open_store(replace(server.database, standby_dsn=dsn or server.standby))
    try:
        await write_heartbeat(store, process_id, 0)
        yield store
    finally:
        await store.write(limits.leave(process_id))
        await store.close()


async def write_heartbeat(store, process_id: str, seconds: int) -> None:
    await store.write(limits.exchange(process_id, NOW_US + seconds * 1_000_000, [], {}, []))


@asynccontextmanager
async def pause_replay(server) -> AsyncIterator[None]:
    """Let the standby fall behind."""
    await server.wait_for_standby()
    await postgres.run_commands(server.standby, "SELECT pg_wal_replay_pause()")
    paused = "SELECT pg_get_wal_replay_pause_state()"
    await wait_until(lambda: postgres.list_rows(server.standby, paused), [("paused",)])
    try:
        yield
    finally:
        await postgres.run_commands(server.standby, "SELECT pg_wal_replay_resume()")


def read_standby(store) -> Awaitable[bool]:
    """Read again until the standby is read: a check counts for a second."""
    return wait_until(lambda: store.scan_standby(is_standby()), True)


async def test_standby_is_read_while_it_is_close_behind(server):
    async with open_with_standby(server, "close") as store:
        await read_standby(store)
        assert store.standby_problem == ""
        assert not await store.scan(is_standby())
        assert not await store.read(is_standby())
        async with pause_replay(server):
            await write_heartbeat(store, "close", BEHIND_S - 1)
            await read_standby(store)
            await write_heartbeat(store, "close", BEHIND_S)
            await wait_until(lambda: store.scan_standby(is_standby()), False)
            assert store.standby_problem == f"it is {BEHIND_S} s behind"
        await read_standby(store)


async def test_store_without_a_process_does_not_say_how_old_its_standby_is(server):
    async with open_with_standby(server, "ended") as store:
        await store.write(limits.leave("ended"))
        assert not await store.scan_standby(is_standby())
        assert store.standby_problem == "no process is running, so its age is unknown"


async def test_another_database_is_not_read_as_a_standby(server, tmp_path):
    other = postgres.get_database(tmp_path).dsn
    async with open_with_standby(server, "other", other) as store:
        assert not await store.scan_standby(is_standby())
        assert store.standby_problem.startswith("it lacks the newest process")


async def test_standby_that_fails_in_between_is_replaced_by_the_primary_server(server):
    async with open_with_standby(server, "failing") as store:
        await read_standby(store)
        with server.stop_standby():
            assert not await store.scan_standby(is_standby())
            await store.probe_standby()
            assert store.standby_problem
        await read_standby(store)


async def test_export_of_a_standby_is_of_the_time_that_it_has_replayed(server, tmp_path):
    settings = Settings(
        home=tmp_path,
        store=SecretStr(server.database.dsn),
        store_standby=SecretStr(server.standby),
    )
    async with open_with_standby(server, "exporting") as store, pause_replay(server):
        paused_us = await store.time_us()
        await write_heartbeat(store, "exporting", 1)
        is_of_standby, time_us = await asyncio.to_thread(read_export, settings)
        # the next export reads the changes since then, which this one lacks
        assert is_of_standby
        assert time_us < paused_us
        await write_heartbeat(store, "exporting", BEHIND_S)
        is_of_standby, time_us = await asyncio.to_thread(read_export, settings)
        assert not is_of_standby
        assert time_us > paused_us


def read_export(settings: Settings) -> tuple[bool, int | None]:
    with closing(open_export_reader(settings)) as reader:
        return reader.read(is_standby()), reader.time_us()


async def test_lists_of_a_service_come_from_its_standby(server, tmp_path):
    chosen = {"store": SecretStr(server.database.dsn), "store_standby": SecretStr(server.standby)}
    async with open_service(tmp_path / "home", **chosen) as desk:

        async def is_listed(payment_id: str) -> bool:
            answer = await desk.ask("GET", "/v1/merchants/payments", desk.rest.merchant)
            return payment_id in {item["paymentId"] for item in answer.body["data"]}

        async def list_problems() -> list[str]:
            status = await ask(desk, "GetSystemStatus", system_pb2.GetSystemStatusRequest())
            named = [item for item in status.conditions if item.name == "standby_behind"]
            return [item.reason for item in named if item.reason]

        async def pass_time() -> None:
            await advance(desk.clock, 1)

        first = (await desk.rest.create(ORDER))["paymentId"]
        await wait_until(lambda: is_listed(first))
        async with pause_replay(server):
            second = (await desk.rest.create(ORDER))["paymentId"]
            assert await is_listed(first)
            assert not await is_listed(second)
            assert (await desk.rest.status(second))["status"] == "requires_action"
            assert await list_problems() == []
            await wait_until(lambda: is_listed(second), meanwhile=pass_time)
            await wait_until(list_problems, meanwhile=pass_time)
