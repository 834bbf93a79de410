"""Test time as an argument."""

from __future__ import annotations

import asyncio
import time

import pytest
from florin_server.base.clock import (
    ShiftedClock,
    SystemClock,
    TestClock,
    sleep_remaining,
)


async def others_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_system_clock_returns_the_machine_time():
    clock = SystemClock()
    before = time.time()
    now_s = clock.now_us() / 1_000_000
    assert before - 0.001 <= now_s <= time.time() + 0.001
    await clock.sleep(0)


@pytest.mark.parametrize("kind", [SystemClock, lambda machine: ShiftedClock(5_000_000, machine)])
def test_clock_that_follows_a_reference_ignores_the_machine_clock(kind):
    machine = [time.time_ns() // 1000]
    past_us = machine[0] - 3_600_000_000
    clock = kind(lambda: machine[0])
    shifted_us = clock.now_us() - machine[0]
    assert (shifted_us, clock.machine_offset_us) in {(0, 0), (5_000_000, 0)}
    clock.follow(past_us, clock.real_steady_us())
    assert 0 <= clock.now_us() - shifted_us - past_us < 60_000_000
    assert 0 <= clock.real_now_us() - past_us < 60_000_000
    assert 3_540_000_000 < clock.machine_offset_us <= 3_600_000_000
    machine[0] += 86_400_000_000
    assert clock.now_us() - shifted_us - past_us < 60_000_000
    assert clock.machine_offset_us > 86_400_000_000


@pytest.mark.parametrize(
    ("now_us", "ahead_us"), [(1_500, 1_000), (500, 1_000), (1_501, 1_501), (0, 0)]
)
def test_a_difference_within_the_tolerance_moves_no_clock(now_us, ahead_us):
    clock = SystemClock(lambda: 0)
    clock.follow(1_000, 0)
    clock.follow(now_us, 0, tolerance_us=500)
    machine_us = -(clock.machine_offset_us + clock.real_steady_us())
    assert ahead_us - 60_000_000 < machine_us <= ahead_us


def test_a_test_clock_stands_still():
    clock = TestClock(7)
    assert clock.now_us() == clock.now_us() == 7
    clock.advance(1.5)
    assert clock.now_us() == 1_500_007


async def test_clock_that_is_set_back_counts_durations_and_wakes_sleepers_in_time():
    clock = TestClock(10_000_000)
    sleeper = asyncio.create_task(clock.sleep(2))
    await others_run()
    clock.set_back(7)
    assert (clock.now_us(), clock.steady_us()) == (3_000_000, 10_000_000)
    clock.advance(2)
    assert (clock.now_us(), clock.steady_us()) == (5_000_000, 12_000_000)
    await asyncio.wait_for(sleeper, 1)


async def test_sleep_ends_in_its_time_when_the_machines_clock_is_set_back(monkeypatch):
    clock = ShiftedClock()
    machine = time.time_ns()
    sleeper = asyncio.create_task(clock.sleep(0.01))
    await others_run()
    monkeypatch.setattr("time.time_ns", lambda: machine - 7200 * 10**9)
    await asyncio.wait_for(sleeper, 5)


async def test_sleepers_wake_at_their_time_and_in_order():
    clock = TestClock(0)
    woken: list[str] = []

    async def sleeper(name, seconds):
        await clock.sleep(seconds)
        woken.append(name)

    tasks = [
        asyncio.create_task(sleeper(name, seconds))
        for name, seconds in (("c", 3), ("a", 1), ("b", 2), ("b too", 2))
    ]
    await others_run()
    clock.advance(0.999999)
    await others_run()
    assert woken == []
    clock.advance(0.000001)
    await others_run()
    assert woken == ["a"]
    clock.advance(10)
    await others_run()
    assert woken == ["a", "b", "b too", "c"]
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("seconds", [0, -1, 1e-9])
async def test_zero_sleep_lets_other_tasks_run(seconds):
    clock = TestClock(0)
    ran = []
    other = asyncio.create_task(others_run())
    other.add_done_callback(ran.append)
    for _ in range(20):
        await clock.sleep(seconds)
    assert ran == [other]


async def test_a_sleeper_that_left_is_not_woken():
    clock = TestClock(0)
    gone = asyncio.create_task(clock.sleep(1))
    stays = asyncio.create_task(clock.sleep(1))
    await others_run()
    gone.cancel()
    await others_run()
    clock.advance(1)
    await stays
    assert gone.cancelled()


async def test_repeated_sleep_starts_at_the_current_time():
    clock = TestClock(0)
    times = []

    async def ticker():
        while True:
            await clock.sleep(1)
            times.append(clock.now_us() // 1_000_000)

    task = asyncio.create_task(ticker())
    await others_run()
    clock.advance(5)
    await others_run()
    clock.advance(1)
    await others_run()
    assert times == [5, 6]
    task.cancel()


@pytest.mark.parametrize(
    ("since_s", "due_s"),
    [(100, 110), (95, 105), (90.5, 100.5), (90, None), (1, None), (101, 110)],
)
async def test_a_rest_is_counted_from_when_it_began(since_s, due_s):
    """The pause is never longer than its length, even if the machine's clock was set back."""
    clock = TestClock(100_000_000)
    task = asyncio.create_task(sleep_remaining(clock, 10, int(since_s * 1_000_000)))
    await others_run()
    assert task.done() is (due_s is None)
    if due_s is not None:
        clock.advance(due_s - 100 - 0.25)
        await others_run()
        assert not task.done()
        clock.advance(0.25)
    await task
