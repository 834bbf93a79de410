"""Reported conditions: fenced by leases, bounded, and since the time of their state."""

from __future__ import annotations

import pytest
from florin_server.domain.conditions import Condition, ConditionName, State
from florin_server.store.operator import conditions
from florin_server.store.operator.conditions import ALIVE_US, FORGET_US, Report, Source
from florin_server.store.settlement import leases

from tests.support.store_kit import CHAIN, NOW_US

LEASE = leases.name_of(CHAIN, "0xab")
FUNDS, CLOCK = ConditionName.RELAYER_FUNDS_LOW, ConditionName.MACHINE_CLOCK_OFF
TTL_US = 30_000_000


def low(since_us: int, reason: str = "1 wei is left") -> dict:
    return {(CHAIN, FUNDS): Condition(FUNDS, State.WARNING, reason, since_us)}


def wrong_clock(since_us: int) -> dict:
    return {("", CLOCK): Condition(CLOCK, State.WARNING, "3 s ahead", since_us)}


@pytest.fixture
async def epoch(store):
    return await store.write(leases.acquire(LEASE, "first", NOW_US, TTL_US, False))


async def test_next_holder_of_a_lease_keeps_the_time_and_fences_the_one_before(store, epoch):
    first = Source(LEASE, epoch)
    assert await store.write(conditions.report(first, low(NOW_US), NOW_US))
    later_us = NOW_US + 2 * TTL_US
    taken = await store.write(leases.acquire(LEASE, "second", later_us, TTL_US, False))
    second = Source(LEASE, taken)
    assert await store.write(conditions.report(second, low(later_us, "none is left"), later_us))
    # the dead one comes back, and knows nothing of it
    assert not await store.write(conditions.report(first, {}, later_us))
    (found,) = await store.read(conditions.reports([LEASE], later_us))
    assert found == Report(LEASE, CHAIN, Condition(FUNDS, State.WARNING, "none is left", NOW_US))
    well = {(CHAIN, FUNDS): Condition(FUNDS, State.OK, "", later_us)}
    assert await store.write(conditions.report(second, well, later_us))
    (found,) = await store.read(conditions.reports([LEASE], later_us))
    assert (found.condition.state, found.condition.since_us) == (State.OK, later_us)


async def test_what_a_holder_does_not_know_yet_stays_as_it_was_reported(store, epoch):
    source = Source(LEASE, epoch)
    await store.write(conditions.report(source, low(NOW_US), NOW_US))
    await store.write(conditions.report(source, {}, NOW_US, unknown=[(CHAIN, FUNDS)]))
    assert len(await store.read(conditions.reports([LEASE], NOW_US))) == 1
    await store.write(conditions.report(source, {}, NOW_US))
    assert await store.read(conditions.reports([LEASE], NOW_US)) == []


async def test_dead_process_is_not_read_and_its_successor_on_the_machine_keeps_the_time(store):
    first, second = Source("process:a:1", host="a"), Source("process:a:2", host="a")
    await store.write(conditions.report(first, wrong_clock(NOW_US), NOW_US))
    later_us = NOW_US + ALIVE_US
    assert await store.read(conditions.reports([], later_us)) == []
    other = Source("process:b:1", host="b")
    await store.write(conditions.report(other, wrong_clock(later_us), later_us))
    await store.write(conditions.report(second, wrong_clock(later_us), later_us))
    found = await store.read(conditions.reports([], later_us))
    assert [(one.source, one.condition.since_us) for one in found] == [
        ("process:a:2", NOW_US),
        ("process:b:1", later_us),
    ]


async def test_processes_that_died_long_ago_leave_no_rows(store):
    for number in range(20):
        source = Source(f"process:a:{number}", host="a")
        now_us = NOW_US + number * FORGET_US // 4
        await store.write(conditions.report(source, wrong_clock(now_us), now_us))
    rows = await store.read(conditions.reports([f"process:a:{n}" for n in range(20)], now_us))
    assert [one.source for one in rows] == [f"process:a:{n}" for n in (15, 16, 17, 18, 19)]


async def test_names_of_another_release_are_left_out(store, epoch):
    strange = {(CHAIN, "of_tomorrow"): Condition("of_tomorrow", State.NOTICE, "?", NOW_US)}
    await store.write(conditions.report(Source(LEASE, epoch), strange | low(NOW_US), NOW_US))
    (found,) = await store.read(conditions.reports([LEASE], NOW_US))
    assert found.condition.name is FUNDS
