"""Time as an argument."""

from __future__ import annotations

import asyncio
import time

import pytest
from florin_server.clock import SystemClock, TestClock, rest


async def others_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_systems_clock_tells_the_machines_time():
    clock = SystemClock()
    before = time.time()
    now_s = clock.now_us() / 1_000_000
    assert before - 0.001 <= now_s <= time.time() + 0.001
    await clock.sleep(0)


def test_a_test_clock_stands_still():
    clock = TestClock(7)
    assert clock.now_us() == clock.now_us() == 7
    clock.advance(1.5)
    assert clock.now_us() == 1_500_007


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
async def test_no_time_at_all_lets_others_run(seconds):
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


async def test_whoever_sleeps_again_sleeps_from_now_on():
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
    """And never longer than it is, though the machine's time was put back since."""
    clock = TestClock(100_000_000)
    task = asyncio.create_task(rest(clock, 10, int(since_s * 1_000_000)))
    await others_run()
    assert task.done() is (due_s is None)
    if due_s is not None:
        clock.advance(due_s - 100 - 0.25)
        await others_run()
        assert not task.done()
        clock.advance(0.25)
    await task
