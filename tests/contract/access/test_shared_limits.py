"""Limits of several processes on one store: together they let through what one alone would."""

from __future__ import annotations

import asyncio
import random

import pytest
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.gcra import Bucket
from florin_server.domain.tally import share_of
from florin_server.flows.limits import sharing
from florin_server.store.engine.query import StoreUnavailable

from tests.support.limit_processes import advance, process, processes
from tests.support.store_kit import ENGINES, NOW_US, beside
from tests.support.until import until

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


async def test_a_process_knows_of_nobody_before_it_asked(engine, tmp_path):
    async with processes(engine, tmp_path, 1) as (one,):
        new = process(one.store, "new")
        assert (new.sharing.processes, new.sharing.exchanged_us) == (1, 0)
        await new.exchange()
        assert (new.sharing.processes, new.sharing.exchanged_us) == (2, NOW_US)
        told = new.meters.registry.get_sample_value
        assert told("florin_limit_exchanges_total", {"outcome": "done"}) == 1


async def test_time_goes_on_after_the_clock_that_was_ahead_is_gone(engine, tmp_path):
    async with processes(engine, tmp_path, 2, ahead_s=100) as (behind, ahead):
        await ahead.exchange()
        await behind.exchange()
        assert behind.sharing.processes == 2
        for _ in range(6):
            advance([behind], 1)
            await behind.exchange()
        assert behind.sharing.processes == 1


async def test_budgets_of_two_kinds_are_two_though_they_have_one_name(engine, tmp_path):
    both = {"guard_per_minute": RATE, "guard_burst": BURST}
    both |= {"address_per_minute": RATE, "address_burst": BURST}
    async with processes(engine, tmp_path, 2, **both) as (first, second):
        for _ in range(BURST):
            first.limits.guard("192.0.2.1")
        await first.exchange()
        for _ in range(UNTOLD):
            second.limits.open_call("192.0.2.1")
        await second.exchange()
        for _ in range(BURST - UNTOLD):
            second.limits.open_call("192.0.2.1")
        with pytest.raises(FlorinError):
            second.limits.open_call("192.0.2.1")


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
        for one in found:
            await one.exchange()
        # the last one knows of all: two bursts are owed
        burst_s = BURST * 60 // RATE
        assert found[2].limits.key("key_1").wait_s == 2 * burst_s + 1
        # while that is paid, the others let through only what they tell next
        passed = await _flood(found, 2 * burst_s)
        assert passed <= 2 * share_of(BURST, 3) + 30
        advance(found, 2 * burst_s)
        assert [one.takes(2 * BURST) for one in found] == [BURST] * 3


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
        wrong.clock.set_back(86_400)
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


async def test_what_is_taken_while_others_are_told_counts_once(engine, tmp_path):
    async with processes(engine, tmp_path, 2, **KEY) as (first, second):
        first.takes(20)
        telling = asyncio.create_task(first.exchange())
        await asyncio.sleep(0)
        first.takes(20)
        await telling
        assert first.takes(2 * BURST) == BURST - 40
        await first.exchange()
        second.takes(UNTOLD)
        await second.exchange()
        # all that was taken, and nothing twice
        assert second.limits.key("key_1").wait_s == -(-(UNTOLD + 1) * 60 // RATE)


async def test_what_is_given_back_is_given_back_to_all(engine, tmp_path):
    chosen = {"guard_per_minute": 60, "guard_burst": 60}
    async with processes(engine, tmp_path, 2, **chosen) as (first, second):
        for _ in range(60):
            first.limits.guard("192.0.2.1")
        await first.exchange()
        for _ in range(40):
            first.limits.unguard("192.0.2.1")
        for _ in range(17):
            first.limits.guard("192.0.2.1")
        for _ in range(7):
            second.limits.guard("192.0.2.1")
        # 23 are given back that were told: it comes to nothing that has to be told at once
        await second.exchange()
        with pytest.raises(FlorinError):
            second.limits.guard("192.0.2.1")
        for _ in range(23):
            first.limits.guard("192.0.2.1")
        with pytest.raises(FlorinError):
            first.limits.guard("192.0.2.1")


async def test_who_makes_up_keys_makes_up_few_rows(engine, tmp_path):
    async with processes(engine, tmp_path, 2, **KEY) as (first, _):
        # keys that are used once cost nothing
        for number in range(100_000):
            first.takes(1, f"key {number}")
            first.clock.advance(1e-5)
        await first.exchange()
        assert await _rows(first, tmp_path) == 0
        # those that are used much are told a few at a time, and the one that is used most first
        for number in range(3_000):
            first.takes(UNTOLD, f"busy {number}")
        first.takes(BURST, "busiest")
        await first.exchange()
        assert await _rows(first, tmp_path) == sharing.BUDGETS_MAX
        second = process(first.store, "second", **KEY)
        await second.exchange()
        second.takes(UNTOLD, "busiest")
        await second.exchange()
        assert second.takes(1, "busiest") == 0


async def test_rows_of_one_process_are_bounded_and_old_ones_go(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "_ROWS_MAX", 30)
    async with processes(engine, tmp_path, 2, **KEY) as (first, second):
        for number in range(100):
            first.takes(UNTOLD, f"busy {number}")
        for _ in range(5):
            await first.exchange()
        # what there is no row for is counted here
        assert await _rows(first, tmp_path) == first.sharing.rows == 100
        for number in range(100, 200):
            first.takes(UNTOLD, f"busy {number}")
        await first.exchange()
        assert await _rows(first, tmp_path) == 100
        assert first.takes(BURST, "busy 150") == BURST - UNTOLD
        # one that has a row is told
        first.takes(BURST, "busy 7")
        await first.exchange()
        second.takes(UNTOLD, "busy 7")
        await second.exchange()
        assert second.takes(1, "busy 7") == 0
        # all is whole again after some time, which makes room, and forgotten after a while
        for rows in (100, 0):
            advance([first, second], 80)
            await first.exchange()
            assert await _rows(first, tmp_path) == rows


@pytest.mark.parametrize("ahead_s", [0, 100])
async def test_a_full_table_has_room_again_for_what_comes_after_it_is_whole(
    engine, tmp_path, monkeypatch, ahead_s
):
    monkeypatch.setattr(sharing, "_ROWS_MAX", 1)
    async with processes(engine, tmp_path, 2, ahead_s=ahead_s, **KEY) as (first, second):
        first.takes(UNTOLD, "old")
        await first.exchange()
        first.takes(UNTOLD, "new")
        await first.exchange()
        assert first.sharing.rows == 1
        # sooner than old rows are looked for
        advance([first, second], 2)
        first.takes(UNTOLD, "new")
        await first.exchange()
        second.takes(UNTOLD, "new")
        await second.exchange()
        assert second.takes(BURST, "new") < BURST - UNTOLD


async def _old_rows(first, second, count):
    """So many budgets of the first that have been whole for more than a minute."""
    for number in range(count):
        first.takes(UNTOLD, f"busy {number}")
    await first.exchange()
    advance([first, second], 80)


async def test_old_rows_go_a_few_at_a_time_until_none_is_left(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "_FORGET_MAX", 2)
    async with processes(engine, tmp_path, 2, **KEY) as (first, second):
        await _old_rows(first, second, 5)
        left = []
        for _ in range(3):
            await first.exchange()
            left.append(await _rows(first, tmp_path))
        assert left == [3, 1, 0]


async def test_old_rows_are_looked_for_every_ten_seconds(engine, tmp_path, monkeypatch):
    async with processes(engine, tmp_path, 2, **KEY) as (one, _):
        write, asked = one.store.write, []

        async def counted(op):
            asked.append(op)
            return await write(op)

        monkeypatch.setattr(one.store, "write", counted)
        counts = []
        for seconds in (9, 2, 1, 9):
            advance([one], seconds)
            await one.exchange()
            counts.append(len(asked))
            asked.clear()
        # beside what is exchanged
        assert counts == [1, 2, 1, 2]


@pytest.mark.parametrize(
    "error", [StoreUnavailable("it was pulled out"), FlorinError(Code.INTERNAL_ERROR)]
)
async def test_old_rows_stay_while_the_store_is_down(engine, tmp_path, monkeypatch, error):
    async with processes(engine, tmp_path, 2, **KEY) as (first, second):
        await _old_rows(first, second, 1)
        write, asked = first.store.write, []

        async def failing(op):
            asked.append(op)
            if len(asked) > 1:
                raise error
            return await write(op)

        with monkeypatch.context() as down:
            down.setattr(first.store, "write", failing)
            await first.exchange()
        assert len(asked) == 2
        assert first.sharing.exchanged_us == first.clock.now_us()
        await first.exchange()
        assert await _rows(first, tmp_path) == 0


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_comes_when_the_store_holds_what_one_alone_would(engine, tmp_path, seed):
    """All that was told counts, in whatever order it was told, beside what one bucket comes to."""
    chance, count = random.Random(seed), 2 + seed % 3
    alone, passed = Bucket(RATE, 10**6, 10), 0
    async with processes(engine, tmp_path, count, **KEY) as found:
        began_us = found[0].clock.now_us()
        for _ in range(200):
            one = chance.choice(found)
            for _ in range(one.takes(chance.choice([1, 2, 20]))):
                alone.take("key_1", one.clock.now_us())
                passed += 1
            if chance.random() < 0.3:
                await chance.choice(found).exchange()
            if chance.random() < 0.5:
                advance(found, chance.choice([0.05, 0.1, 0.3, 1]))
            for one in found:
                # as each does by itself
                if one.clock.now_us() - one.sharing.exchanged_us > 1_000_000:
                    await one.exchange()
        for one in found:
            await one.exchange()
        now_us = found[0].clock.now_us()
        rows = await beside(found[0].store, tmp_path, "SELECT whole_us FROM shared_budget")
        untold_us = count * UNTOLD * 60_000_000 // RATE
        assert rows[0][0] >= now_us + alone.ahead_us("key_1", now_us) - untold_us
        span = (now_us - began_us) * RATE // 60_000_000
        assert passed <= count * BURST + span + count * UNTOLD


class Pulled:
    """A store that fails before, or after, what it is asked for is kept."""

    def __init__(self) -> None:
        self.at = ""

    def __call__(self, step: str) -> None:
        if step == self.at:
            raise StoreUnavailable("it was pulled out")


async def test_while_the_store_is_down_each_decides_for_itself_and_tells_it_later(engine, tmp_path):
    pulled = Pulled()
    async with processes(engine, tmp_path, 2, fault=pulled, **KEY) as found:
        pulled.at = "commit"
        passed = await _flood(found, 60)
        assert passed == 2 * (BURST + RATE - 1)
        assert {one.sharing.exchanged_us for one in found} == {NOW_US}
        told = found[0].meters.registry.get_sample_value
        assert told("florin_limit_exchanges_total", {"outcome": "failed"}) == 600
        pulled.at = ""
        for one in (*found, *found):
            await one.exchange()
        # what both let through is owed, but no more than a burst for each
        assert found[1].limits.key("key_1").wait_s <= (2 * BURST - BURST + 1) * 60 / RATE + 1
        assert await _flood(found, 60) <= RATE + 2 * UNTOLD


async def test_what_may_have_been_kept_costs_its_caller_once_more_at_most(engine, tmp_path):
    pulled = Pulled()
    async with processes(engine, tmp_path, 2, fault=pulled, **KEY) as (first, second):
        first.takes(20)
        # it was committed, and nobody heard
        pulled.at = "committed"
        await first.exchange()
        pulled.at = ""
        await first.exchange()
        second.takes(UNTOLD)
        await second.exchange()
        assert second.takes(BURST) == BURST - 2 * 20 - UNTOLD
        assert first.takes(1, "another") == 1


async def test_exchanges_go_on_by_themselves_and_at_once_when_much_was_taken(engine, tmp_path):
    async with processes(engine, tmp_path, 1, **KEY) as (other,):
        one = process(other.store, "one", **KEY)
        async with one.sharing.running():
            await other.exchange()
            # a beat later it knows that there are two
            await until(lambda: one.clock.sleepers, 1)
            advance([one, other], 0.02)
            await until(lambda: one.clock.sleepers, 1)
            advance([one, other], 1)
            await until(lambda: one.sharing.processes, 2)
            await until(lambda: one.clock.sleepers, 1)
            advance([one, other], 0.02)
            await until(lambda: one.clock.sleepers, 1)
            # no time passes, and it is told
            one.takes(UNTOLD)
            await until(lambda: one.sharing.rows, 1)
        other.takes(UNTOLD)
        await other.exchange()
        assert other.takes(BURST) == BURST - 2 * UNTOLD


async def _rows(one, folder):
    ((count,),) = await beside(one.store, folder, "SELECT count(*) FROM shared_budget")
    return count
