"""Test PostgreSQL notifications: listeners receive them, and learn when a connection ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from florin_server.accounts.store import keys, merchants, pins
from florin_server.base.clock import TestClock
from florin_server.compliance.screening import store as blocklists
from florin_server.db import generations
from florin_server.db.engine.postgres.notices import PostgresNotificationChannel
from florin_server.db.engine.query import StoreError, StoreUnavailable, operation
from florin_server.db.engine.where import DatabaseConfig
from florin_server.db.generations import CacheKind
from florin_server.domain.accounts.account import (
    SCOPES,
    ApiKey,
    Partner,
    WalletApp,
)
from florin_server.domain.accounts.credentials import ApiKeyKind
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import Merchant
from florin_server.domain.screening.blocklist import ScreeningList
from florin_server.money.open_store import open_store
from florin_server.operations.store import executors

from tests.support import postgres
from tests.support.store_factories import LATER_US, NOW_US, open_engine_store
from tests.support.until import wait_until

needed = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
)
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{}'"


class Listener:
    """A listener that records its messages."""

    def __init__(self, notices: PostgresNotificationChannel) -> None:
        self.clock = TestClock(0)
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self.began = asyncio.Event()
        listening = notices.listen(self.clock, self.began.set, self.heard.put_nowait)
        self.task = asyncio.create_task(listening)


@pytest.fixture
async def database(tmp_path):
    yield postgres.get_database(tmp_path)
    await postgres.drop_database(tmp_path)


@pytest.fixture
async def notices(database):
    channel = PostgresNotificationChannel(database)
    listener = Listener(channel)
    await listener.began.wait()
    yield channel, listener
    listener.task.cancel()
    await asyncio.gather(listener.task, return_exceptions=True)
    await channel.close()


@needed
async def test_notifications_arrive_in_order(notices):
    created, listener = notices
    for text in ("a", "b'c", "d" * 7999):
        await created.publish(text)
        assert await listener.heard.get() == text


@needed
async def test_oversized_notification_is_refused_and_the_next_is_sent(notices):
    created, listener = notices
    with pytest.raises(StoreError):
        await created.publish("d" * 8000)
    await created.publish("short")
    assert await listener.heard.get() == "short"


@needed
@pytest.mark.parametrize("is_polled", [False, True], ids=["notified", "polled"])
async def test_a_listener_that_is_cut_off_ends(notices, database, is_polled):
    _, listener = notices
    await postgres.run_commands(database.dsn, CUT.format("florin-listen"))
    if is_polled:
        # the next look would also find it
        listener.clock.advance(10)
    with pytest.raises(StoreUnavailable):
        await listener.task


@needed
async def test_a_listener_looks_whether_it_is_connected_still(notices, database):
    """A network that silently drops a connection looks like this."""
    _, listener = notices
    request = "SELECT query FROM pg_stat_activity WHERE application_name = 'florin-listen'"
    listener.clock.advance(10)
    await wait_until(lambda: postgres.list_rows(database.dsn, request), [("SELECT 1",)])
    assert not listener.task.done()


@needed
async def test_notifier_reconnects_after_a_lost_connection(notices, database):
    created, listener = notices
    await created.publish("one")
    await postgres.run_commands(database.dsn, CUT.format("florin-notify"))
    with pytest.raises(StoreUnavailable):
        await created.publish("two")
    await created.publish("three")
    assert [await listener.heard.get() for _ in range(2)] == ["one", "three"]


@needed
async def test_notify_and_listen_fail_without_a_server(tmp_path):
    channel = PostgresNotificationChannel(
        DatabaseConfig(f"postgresql://user@/none?host={tmp_path}")
    )
    with pytest.raises(StoreError):
        await channel.publish("text")
    with pytest.raises(StoreError):
        await Listener(channel).task


@needed
async def test_notices_can_be_switched_off(database):
    for notify in (True, False):
        store = await open_store(replace(database, notify=notify))
        assert (store.notification_channel is not None) is notify
        await store.close()


async def test_a_file_has_none(tmp_path):
    async with open_engine_store("sqlite", tmp_path) as store:
        assert store.notification_channel is None


PARTNER = Partner("par_1", "Shop Ltd", "2026-01-01", "active", NOW_US)
MERCHANT = Merchant("mer_1", "par_1", "Shop", "a@shop.example", None, "active", False, NOW_US, None)
KEY = ApiKey(
    "abcdefgh", ApiKeyKind.WALLET, False, None, b"\x01" * 32, "9xYz", SCOPES, "2026-01-01", NOW_US
)
APP = WalletApp("app_1", "Wallet", None, False, "2026-01-01", NOW_US)
LIST = ScreeningList("ofac", "00", None, NOW_US, 0)
OWN = ("mer_1", "par_1")
CHANGES = {
    CacheKind.ACCOUNTS: (
        merchants.put_partner(replace(PARTNER, status="suspended")),
        merchants.set_partner_status("par_1", "active"),
        merchants.put_merchant(replace(MERCHANT, name="Tea")),
        merchants.set_status("mer_1", "inactive"),
        merchants.change(*OWN, live=False, name="Tea House"),
        keys.put_app(replace(APP, revoked_at_us=1)),
        keys.revoke_app("app_1", LATER_US),
        keys.revoke_key("abcdefgh", LATER_US),
        *(
            pins.move_pin(kind, id_, ("2026-01-01",), "2026-02-01")
            for kind, id_ in (
                (pins.PARTNER, "par_1"),
                (pins.WALLET, "app_1"),
                (pins.KEY, KEY.key_id),
            )
        ),
        merchants.delete(*OWN, live=False, now_us=LATER_US),
    ),
    CacheKind.SCREENING: (blocklists.replace(LIST, ()), blocklists.remove("ofac")),
    CacheKind.EXECUTORS: (
        executors.pause("eip155:1:0xaa", NOW_US),
        executors.resume("eip155:1:0xaa"),
    ),
}


async def test_every_change_of_cached_rows_is_counted(store):
    for op in (
        merchants.put_partner(PARTNER),
        merchants.put_merchant(MERCHANT),
        keys.put_app(APP),
        keys.put_key(KEY),
    ):
        await store.write(op)
    for kind, changes in CHANGES.items():
        for number, change in enumerate(changes):
            before = await store.read(generations.get_versions())
            await store.write(change)
            counted = {**before, kind: before.get(kind, 0) + 1}
            assert await store.read(generations.get_versions()) == counted, (kind, number)


async def test_a_change_that_fails_is_not_counted(store):
    @operation
    def failing():
        yield from merchants.put_partner(PARTNER)
        raise ApiError(ErrorCode.PARTNER_NOT_FOUND)

    with pytest.raises(ApiError):
        await store.write(failing())
    assert await store.read(generations.get_versions()) == {}
