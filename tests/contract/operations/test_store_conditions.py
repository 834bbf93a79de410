"""Test reported conditions: fenced by leases, bounded, and dated from the start of their state."""

from __future__ import annotations

import pytest
from florin_server.domain.conditions import Condition, ConditionName, ConditionState
from florin_server.operations.store import conditions, leases
from florin_server.operations.store.conditions import (
    ALIVE_US,
    FORGET_US,
    ConditionReport,
    ReportSource,
)

from tests.support.store_factories import CHAIN, NOW_US

LEASE = leases.format_name(CHAIN, "0xab")
FUNDS, CLOCK = ConditionName.RELAYER_FUNDS_LOW, ConditionName.MACHINE_CLOCK_OFF
TTL_US = 30_000_000


def low(since_us: int, reason: str = "1 wei is left") -> dict:
    return {(CHAIN, FUNDS): Condition(FUNDS, ConditionState.WARNING, reason, since_us)}


def wrong_clock(since_us: int) -> dict:
    return {("", CLOCK): Condition(CLOCK, ConditionState.WARNING, "3 s ahead", since_us)}


@pytest.fixture
async def epoch(store):
    return await store.write(leases.acquire(LEASE, "first", NOW_US, TTL_US, False))


async def test_next_lease_holder_keeps_the_condition_time_and_fences_the_previous(store, epoch):
    first = ReportSource(LEASE, epoch)
    assert await store.write(conditions.report(first, low(NOW_US), NOW_US))
    later_us = NOW_US + 2 * TTL_US
    taken = await store.write(leases.acquire(LEASE, "second", later_us, TTL_US, False))
    second = ReportSource(LEASE, taken)
    assert await store.write(conditions.report(second, low(later_us, "none is left"), later_us))
    # the dead process comes back, unaware of its end
    assert not await store.write(conditions.report(first, {}, later_us))
    (result,) = await store.read(conditions.list_reports([LEASE], later_us))
    assert result == ConditionReport(
        LEASE, CHAIN, Condition(FUNDS, ConditionState.WARNING, "none is left", NOW_US)
    )
    well = {(CHAIN, FUNDS): Condition(FUNDS, ConditionState.OK, "", later_us)}
    assert await store.write(conditions.report(second, well, later_us))
    (result,) = await store.read(conditions.list_reports([LEASE], later_us))
    assert (result.condition.state, result.condition.since_us) == (ConditionState.OK, later_us)


async def test_condition_unknown_to_a_new_holder_stays_as_reported(store, epoch):
    source = ReportSource(LEASE, epoch)
    await store.write(conditions.report(source, low(NOW_US), NOW_US))
    await store.write(conditions.report(source, {}, NOW_US, unknown_keys=[(CHAIN, FUNDS)]))
    assert len(await store.read(conditions.list_reports([LEASE], NOW_US))) == 1
    await store.write(conditions.report(source, {}, NOW_US))
    assert await store.read(conditions.list_reports([LEASE], NOW_US)) == []


async def test_dead_process_is_not_read_and_its_successor_on_the_machine_keeps_the_time(store):
    first, second = ReportSource("process:a:1", host="a"), ReportSource("process:a:2", host="a")
    await store.write(conditions.report(first, wrong_clock(NOW_US), NOW_US))
    later_us = NOW_US + ALIVE_US
    assert await store.read(conditions.list_reports([], later_us)) == []
    other = ReportSource("process:b:1", host="b")
    await store.write(conditions.report(other, wrong_clock(later_us), later_us))
    await store.write(conditions.report(second, wrong_clock(later_us), later_us))
    result = await store.read(conditions.list_reports([], later_us))
    assert [(item.source, item.condition.since_us) for item in result] == [
        ("process:a:2", NOW_US),
        ("process:b:1", later_us),
    ]


async def test_processes_that_died_long_ago_leave_no_rows(store):
    for number in range(20):
        source = ReportSource(f"process:a:{number}", host="a")
        now_us = NOW_US + number * FORGET_US // 4
        await store.write(conditions.report(source, wrong_clock(now_us), now_us))
    rows = await store.read(conditions.list_reports([f"process:a:{n}" for n in range(20)], now_us))
    assert [row.source for row in rows] == [f"process:a:{n}" for n in (15, 16, 17, 18, 19)]


async def test_names_of_another_release_are_left_out(store, epoch):
    strange = {(CHAIN, "of_tomorrow"): Condition("of_tomorrow", ConditionState.NOTICE, "?", NOW_US)}
    await store.write(conditions.report(ReportSource(LEASE, epoch), strange | low(NOW_US), NOW_US))
    (result,) = await store.read(conditions.list_reports([LEASE], NOW_US))
    assert result.condition.name is FUNDS
