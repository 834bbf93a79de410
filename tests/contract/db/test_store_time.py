"""Test the time of several processes: they follow the database, and reject times too far ahead."""

from __future__ import annotations

import asyncio
import time

import pytest
from florin_server.app.housekeeping.store_time import set_to_store_time
from florin_server.app.stores import open_reader
from florin_server.base.clock import SystemClock
from florin_server.db.engine.times import PAUSE_MAX_US
from florin_server.money.open_store import open_store
from florin_server.money.settlement.store import settlement_items
from florin_server.operations.store import leases

from tests.support import postgres
from tests.support.store_factories import CHAIN, LATER_US, create_processing_payment

HOUR_US = 3_600_000_000


@pytest.mark.parametrize("ahead_us", [-HOUR_US, HOUR_US, 24 * HOUR_US])
async def test_processes_share_the_time_of_the_database(store, ahead_us):
    """One machine's clock is wrong; a file has no other users, so its clock stays the machine's."""
    clock = SystemClock(lambda: time.time_ns() // 1000 + ahead_us)
    await set_to_store_time(store, clock)
    off_us = clock.now_us() - time.time_ns() // 1000
    expected_us = ahead_us if store.is_exclusive else 0
    assert abs(off_us - expected_us) < 60_000_000
    assert (abs(clock.machine_offset_us) > 60_000_000) is not store.is_exclusive


async def test_a_lease_of_a_clock_that_was_ahead_is_not_believed(store):
    now_us, ttl_us = LATER_US, 25_000_000
    ahead_us = now_us + HOUR_US
    assert await store.write(leases.acquire("relayer", "ahead", ahead_us, ttl_us, steal=False)) == 1
    assert await store.read(leases.filter_held(["relayer"], now_us)) == frozenset()
    assert await store.write(leases.acquire("relayer", "right", now_us, ttl_us, steal=False)) == 2
    # it is right to within the existing pauses
    assert (
        await store.write(leases.acquire("relayer", "other", now_us, ttl_us, steal=False)) is None
    )
    assert not await store.write(leases.renew("relayer", "ahead", 1, ahead_us, ttl_us))


@pytest.mark.parametrize(("ahead_us", "due"), [(PAUSE_MAX_US, False), (PAUSE_MAX_US + 1, True)])
async def test_a_retry_that_is_too_far_ahead_is_due(store, ahead_us, due):
    of = await create_processing_payment(store)
    await store.write(settlement_items.release([of.id], LATER_US + ahead_us))
    result = await store.read(settlement_items.list_waiting(CHAIN, 10, LATER_US))
    assert [item.payment.id for item in result] == ([of.id] if due else [])


def test_export_goes_by_the_time_of_the_database(tmp_path, stores):
    """The next export reads the changes since then: a clock ahead of time would skip rows."""
    for place, shared in stores:
        reader = open_reader(place)
        store_us = reader.time_us()
        reader.close()
        assert (store_us is not None) is shared
        assert store_us is None or abs(store_us - time.time_ns() // 1000) < HOUR_US


@pytest.fixture
def stores(tmp_path):
    """Return a store of each kind that a reader opens, and whether other machines can share it."""

    async def create_store(place) -> None:
        await (await open_store(place)).close()

    places = [(tmp_path / "florin.db", False)]
    if postgres.POSTGRES in postgres.list_engines():
        places.append((postgres.get_database(tmp_path), True))
    for place, _ in places:
        asyncio.run(create_store(place))
    yield places
    asyncio.run(postgres.drop_database(tmp_path))
