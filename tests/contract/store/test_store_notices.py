"""Notices of PostgreSQL: whoever listens is told, and everybody learns when that is over."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from florin_server.clock import TestClock
from florin_server.domain.accounts.account import SCOPES, ApiKey, Partner, WalletApp
from florin_server.domain.accounts.credentials import KeyKind
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import Merchant
from florin_server.domain.screening.blocklist import ScreeningList
from florin_server.store.accounts import keys, merchants, pins
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.postgres.notices import DatabaseNotices
from florin_server.store.engine.query import StoreError, StoreUnavailable, operation
from florin_server.store.engine.where import Database
from florin_server.store.hints import generations
from florin_server.store.hints.generations import Kind
from florin_server.store.operator import executors
from florin_server.store.screening import blocklists

from tests.support import postgres
from tests.support.store_kit import LATER_US, NOW_US, opened
from tests.support.until import until

needed = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
)
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{}'"


class Listener:
    """Collects what is heard."""

    def __init__(self, notices: DatabaseNotices) -> None:
        self.clock = TestClock(0)
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self.began = asyncio.Event()
        listening = notices.listen(self.clock, self.began.set, self.heard.put_nowait)
        self.task = asyncio.create_task(listening)


@pytest.fixture
async def database(tmp_path):
    yield postgres.of(tmp_path)
    await postgres.forget(tmp_path)


@pytest.fixture
async def notices(database):
    made = DatabaseNotices(database)
    listener = Listener(made)
    await listener.began.wait()
    yield made, listener
    listener.task.cancel()
    await asyncio.gather(listener.task, return_exceptions=True)
    await made.close()


@needed
async def test_what_is_told_is_heard_in_its_order(notices):
    made, listener = notices
    for text in ("a", "b'c", "d" * 7999):
        await made.tell(text)
        assert await listener.heard.get() == text


@needed
async def test_a_text_that_is_too_long_is_refused_and_the_next_is_told(notices):
    made, listener = notices
    with pytest.raises(StoreError):
        await made.tell("d" * 8000)
    await made.tell("short")
    assert await listener.heard.get() == "short"


@needed
@pytest.mark.parametrize("asked", [False, True], ids=["told", "found"])
async def test_a_listener_that_is_cut_off_ends(notices, database, asked):
    _, listener = notices
    await postgres.commands(database.dsn, CUT.format("florin-listen"))
    if asked:
        # the next look would find it too
        listener.clock.advance(10)
    with pytest.raises(StoreUnavailable):
        await listener.task


@needed
async def test_a_listener_looks_whether_it_is_connected_still(notices, database):
    """As one has to whom a network says nothing any more."""
    _, listener = notices
    asked = "SELECT query FROM pg_stat_activity WHERE application_name = 'florin-listen'"
    listener.clock.advance(10)
    await until(lambda: postgres.rows(database.dsn, asked), [("SELECT 1",)])
    assert not listener.task.done()


@needed
async def test_what_tells_connects_again(notices, database):
    made, listener = notices
    await made.tell("one")
    await postgres.commands(database.dsn, CUT.format("florin-tell"))
    with pytest.raises(StoreUnavailable):
        await made.tell("two")
    await made.tell("three")
    assert [await listener.heard.get() for _ in range(2)] == ["one", "three"]


@needed
async def test_where_nobody_is_both_are_refused(tmp_path):
    made = DatabaseNotices(Database(f"postgresql://nobody@/none?host={tmp_path}"))
    with pytest.raises(StoreError):
        await made.tell("text")
    with pytest.raises(StoreError):
        await Listener(made).task


@needed
async def test_notices_can_be_switched_off(database):
    for notify in (True, False):
        store = await open_store(replace(database, notify=notify))
        assert (store.notices is not None) is notify
        await store.close()


async def test_a_file_has_none(tmp_path):
    async with opened("sqlite", tmp_path) as store:
        assert store.notices is None


PARTNER = Partner("par_1", "Shop Ltd", "2026-01-01", "active", NOW_US)
MERCHANT = Merchant("mer_1", "par_1", "Shop", "a@shop.example", None, "active", False, NOW_US, None)
KEY = ApiKey(
    "abcdefgh", KeyKind.WALLET, False, None, b"\x01" * 32, "9xYz", SCOPES, "2026-01-01", NOW_US
)
APP = WalletApp("app_1", "Wallet", None, False, "2026-01-01", NOW_US)
LIST = ScreeningList("ofac", "00", None, NOW_US, 0)
OWN = ("mer_1", "par_1")
CHANGES = {
    Kind.ACCOUNTS: (
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
    Kind.SCREENING: (blocklists.replace(LIST, ()), blocklists.remove("ofac")),
    Kind.EXECUTORS: (executors.pause("eip155:1:0xaa", NOW_US), executors.resume("eip155:1:0xaa")),
}


async def test_every_change_of_what_is_remembered_is_counted(store):
    for made in (
        merchants.put_partner(PARTNER),
        merchants.put_merchant(MERCHANT),
        keys.put_app(APP),
        keys.put_key(KEY),
    ):
        await store.write(made)
    for kind, changes in CHANGES.items():
        for number, change in enumerate(changes):
            before = await store.read(generations.current())
            await store.write(change)
            counted = {**before, kind: before.get(kind, 0) + 1}
            assert await store.read(generations.current()) == counted, (kind, number)


async def test_a_change_that_fails_is_not_counted(store):
    @operation
    def failing():
        yield from merchants.put_partner(PARTNER)
        raise FlorinError(Code.PARTNER_NOT_FOUND)

    with pytest.raises(FlorinError):
        await store.write(failing())
    assert await store.read(generations.current()) == {}
