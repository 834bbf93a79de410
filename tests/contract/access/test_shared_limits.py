"""Limits of several processes on one store: together they let through what one alone would."""

from __future__ import annotations

import pytest
from florin_server.domain.tally import share_of

from tests.support.processes import advance, process, processes
from tests.support.store_kit import ENGINES, beside

# a call every tenth of a second, sixty at once
RATE, BURST = 600, 60
KEY = {"key_per_minute": RATE, "key_burst": BURST}
# what two processes do not know of each other at most
UNTOLD = share_of(BURST, 2)

pytestmark = pytest.mark.parametrize("engine", ENGINES)


async def _flood(found, seconds, *, turns=lambda _second, _number: True, step_s=0.1):
    """How many calls got through that came all the time, beyond the first burst."""
    passed = 0
    for step in range(round(seconds / step_s)):
        for number, one in enumerate(found):
            if turns(step * step_s, number):
                passed += one.takes(30)
        for one in found:
            await one.exchange()
        advance(found, step_s)
    return passed


async def test_processes_know_how_many_they_are(engine, tmp_path):
    async with processes(engine, tmp_path, 3) as found:
        assert [one.sharing.processes for one in found] == [3, 3, 3]
        advance(found, 4)
        await found[0].exchange()
        await found[1].exchange()
        assert found[0].sharing.processes == 3
        advance(found, 2)
        await found[0].exchange()
        assert found[0].sharing.processes == 2


async def test_one_alone_keeps_no_rows(engine, tmp_path):
    async with processes(engine, tmp_path, 1, **KEY) as (one,):
        assert one.takes(2 * BURST) == BURST
        await one.exchange()
        assert await beside(one.store, tmp_path, "SELECT key FROM shared_budget") == []
        assert (one.sharing.processes, one.sharing.rows) == (1, 0)


async def test_a_caller_who_spreads_evenly_gets_no_more_in_the_long_run(engine, tmp_path):
    async with processes(engine, tmp_path, 2, **KEY) as found:
        passed = await _flood(found, 60)
        # each let a tenth of a second's calls through before it heard of the other
        assert RATE <= passed <= BURST + RATE + 2 * UNTOLD + 30


@pytest.mark.parametrize("count", [2, 3, 5])
async def test_neither_do_callers_who_go_from_one_to_the_next(engine, tmp_path, count):
    async with processes(engine, tmp_path, count, **KEY) as found:
        passed = await _flood(found, 60, turns=lambda s, number: int(s) % count == number)
        assert passed <= BURST + RATE + count * (share_of(BURST, count) + 30)


async def test_neither_do_those_who_stay_below_what_is_told(engine, tmp_path):
    async with processes(engine, tmp_path, 2, **KEY) as found:
        passed = 0
        for _ in range(120):
            passed += sum(one.takes(UNTOLD - 1) for one in found)
            for one in found:
                await one.exchange()
            advance(found, 0.5)
        assert passed <= BURST + RATE + 2 * 2 * UNTOLD


async def test_at_once_each_lets_a_burst_through_and_it_is_paid_for(engine, tmp_path):
    async with processes(engine, tmp_path, 3, **KEY) as found:
        assert [one.takes(2 * BURST) for one in found] == [BURST] * 3
        for _ in range(2):
            for one in found:
                await one.exchange()
        burst_s = BURST * 60 // RATE
        # two bursts are owed, which come back in their time
        assert {one.limits.key("key_1").wait_s for one in found} == {2 * burst_s + 1}
        advance(found, 2 * burst_s)
        assert [one.takes(1) for one in found] == [0, 0, 0]
        advance(found, burst_s)
        for one in found:
            await one.exchange()
        assert found[2].takes(2 * BURST) == BURST


async def test_a_caller_of_one_process_has_its_whole_budget(engine, tmp_path):
    async with processes(engine, tmp_path, 3, **KEY) as found:
        first, passed = found[0], 0
        for _ in range(300):
            passed += first.takes(30)
            for one in found:
                await one.exchange()
            advance(found, 0.1)
        # as one alone lets through: the burst, and a call for each tenth of a second after it began
        assert passed == BURST + 300 - 1


async def test_what_one_lets_through_another_knows(engine, tmp_path):
    async with processes(engine, tmp_path, 2, **KEY) as (first, second):
        assert first.takes(BURST) == BURST
        await first.exchange()
        assert second.takes(UNTOLD) == UNTOLD
        await second.exchange()
        assert second.takes(1) == 0
        assert second.takes(1, "another") == 1


async def test_who_calls_is_not_to_be_read_in_the_store(engine, tmp_path):
    async with processes(engine, tmp_path, 2, failure_per_minute=60, failure_burst=60) as found:
        first, _ = found
        for _ in range(60):
            first.fails("192.0.2.77")
        held = [first.limits.held.by_nobody("192.0.2.77") for _ in range(100)]
        await first.exchange()
        for table in ("shared_budget", "shared_hold"):
            ((key,),) = await beside(first.store, tmp_path, f"SELECT key FROM {table}")
            assert len(key) == 32
            assert int(key, 16)
        assert len(held) == 100


async def test_a_clock_that_is_ahead_locks_nobody_out(engine, tmp_path):
    # a burst comes back in six seconds, and the clocks are five apart
    async with processes(engine, tmp_path, 2, ahead_s=5, **KEY) as found:
        behind, ahead = found
        for _ in range(100):
            assert (behind.takes(1), ahead.takes(1)) == (1, 1)
            for one in found:
                await one.exchange()
            advance(found, 0.2)
        assert {one.sharing.processes for one in found} == {2}


async def test_a_clock_that_is_ahead_gets_nobody_more(engine, tmp_path):
    async with processes(engine, tmp_path, 2, ahead_s=3_600, **KEY) as found:
        assert await _flood(found, 60) <= BURST + RATE + 2 * UNTOLD + 30


async def test_a_clock_that_is_set_right_again_harms_nobody(engine, tmp_path):
    async with processes(engine, tmp_path, 2, **KEY) as found:
        wrong, right = found
        wrong.clock.advance(86_400)
        await wrong.exchange()
        await right.exchange()
        wrong.clock._now_us -= 86_400_000_000  # noqa: SLF001  (as NTP does)
        for _ in range(20):
            assert (wrong.takes(1), right.takes(1)) == (1, 1)
            for one in found:
                await one.exchange()
            advance(found, 0.2)
        assert {one.sharing.processes for one in found} == {2}
        assert await _flood(found, 60) <= BURST + RATE + 2 * UNTOLD + 30


async def test_a_new_process_learns_what_was_taken_before_it_was_there(engine, tmp_path):
    async with processes(engine, tmp_path, 2, **KEY) as found:
        first, _ = found
        assert first.takes(BURST) == BURST
        await first.exchange()
        late = process(first.store, "late", **KEY)
        await late.exchange()
        assert late.takes(UNTOLD) == UNTOLD
        await late.exchange()
        assert late.takes(1) == 0
