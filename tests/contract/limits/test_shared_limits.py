"""Test rate limits of several processes on one store: together they admit what one would."""

from __future__ import annotations

import asyncio
import random

import pytest
from florin_server.db.engine.query import StoreUnavailable
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.gcra import GcraLimiter
from florin_server.domain.pending_counts import compute_threshold
from florin_server.limits.service import shared_limits

from tests.support.limit_processes import advance_clocks, make_process, open_processes
from tests.support.store_factories import ENGINES, NOW_US, execute_beside
from tests.support.until import wait_until

# one call every tenth of a second, 60 at once
RATE, BURST = 600, 60
KEY = {"key_per_minute": RATE, "key_burst": BURST}
# the most that two processes do not know of each other
UNTOLD = compute_threshold(BURST, 2)

pytestmark = pytest.mark.parametrize("engine", ENGINES)


async def _flood(result, seconds, *, turns=lambda _second, _number: True, step_s=0.1):
    """Call without a break; return how many calls were admitted."""
    passed = 0
    for step in range(round(seconds / step_s)):
        for number, item in enumerate(result):
            if turns(step * step_s, number):
                passed += item.count_allowed(30)
        for item in result:
            await item.exchange()
        advance_clocks(result, step_s)
    return passed


async def test_processes_know_how_many_they_are(engine, tmp_path):
    async with open_processes(engine, tmp_path, 3) as processes:
        assert [process.sharing.process_count for process in processes] == [3, 3, 3]
        advance_clocks(processes, 4)
        await processes[0].exchange()
        await processes[1].exchange()
        assert processes[0].sharing.process_count == 3
        advance_clocks(processes, 2)
        await processes[0].exchange()
        assert processes[0].sharing.process_count == 2


async def test_process_counts_no_peers_before_its_first_exchange(engine, tmp_path):
    async with open_processes(engine, tmp_path, 1) as (process,):
        new = make_process(process.store, "new")
        assert (new.sharing.process_count, new.sharing.exchanged_at_us) == (1, 0)
        await new.exchange()
        assert (new.sharing.process_count, new.sharing.exchanged_at_us) == (2, NOW_US)
        get_sample_value = new.meters.registry.get_sample_value
        assert get_sample_value("florin_limit_exchanges_total", {"outcome": "done"}) == 1


async def test_peer_expires_after_a_clock_that_was_ahead_is_gone(engine, tmp_path):
    async with open_processes(engine, tmp_path, 2, ahead_s=100) as (behind, ahead):
        await ahead.exchange()
        await behind.exchange()
        assert behind.sharing.process_count == 2
        for _ in range(6):
            advance_clocks([behind], 1)
            await behind.exchange()
        assert behind.sharing.process_count == 1


async def test_limits_of_different_kinds_with_the_same_name_are_separate(engine, tmp_path):
    both = {"guard_per_minute": RATE, "guard_burst": BURST}
    both |= {"address_per_minute": RATE, "address_burst": BURST}
    async with open_processes(engine, tmp_path, 2, **both) as (first, second):
        for _ in range(BURST):
            first.limits.count_idempotency_key("192.0.2.1")
        await first.exchange()
        for _ in range(UNTOLD):
            second.limits.count_open_call("192.0.2.1")
        await second.exchange()
        for _ in range(BURST - UNTOLD):
            second.limits.count_open_call("192.0.2.1")
        with pytest.raises(ApiError):
            second.limits.count_open_call("192.0.2.1")


async def test_single_process_writes_no_rows(engine, tmp_path):
    async with open_processes(engine, tmp_path, 1, **KEY) as (process,):
        assert process.count_allowed(2 * BURST) == BURST
        await process.exchange()
        assert await execute_beside(process.store, tmp_path, "SELECT key FROM shared_budget") == []
        assert (process.sharing.process_count, process.sharing.row_count) == (1, 0)


async def test_caller_spread_over_processes_gets_no_more_in_the_long_run(engine, tmp_path):
    async with open_processes(engine, tmp_path, 2, **KEY) as processes:
        passed = await _flood(processes, 60)
        # each admits a tenth of a second's calls before it learns of the other
        assert RATE <= passed <= BURST + RATE + 2 * UNTOLD + 30


@pytest.mark.parametrize("count", [2, 3, 5])
async def test_caller_that_rotates_over_processes_gets_no_more_in_the_long_run(
    engine, tmp_path, count
):
    async with open_processes(engine, tmp_path, count, **KEY) as processes:
        passed = await _flood(processes, 60, turns=lambda s, number: int(s) % count == number)
        assert passed <= BURST + RATE + count * (compute_threshold(BURST, count) + 30)


async def test_caller_below_the_publish_threshold_gets_no_more_in_the_long_run(engine, tmp_path):
    async with open_processes(engine, tmp_path, 2, **KEY) as processes:
        passed = 0
        for _ in range(120):
            passed += sum(each_process.count_allowed(UNTOLD - 1) for each_process in processes)
            for process in processes:
                await process.exchange()
            advance_clocks(processes, 0.5)
        assert passed <= BURST + RATE + 2 * 2 * UNTOLD


async def test_at_once_each_lets_a_burst_through_and_it_is_paid_for(engine, tmp_path):
    async with open_processes(engine, tmp_path, 3, **KEY) as processes:
        assert [each_process.count_allowed(2 * BURST) for each_process in processes] == [BURST] * 3
        for process in processes:
            await process.exchange()
        # the last process knows of all three: two bursts are owed
        burst_s = BURST * 60 // RATE
        assert processes[2].limits.count_key_call("key_1").wait_s == 2 * burst_s + 1
        # until that is paid back, the others admit only what they publish next
        passed = await _flood(processes, 2 * burst_s)
        assert passed <= 2 * compute_threshold(BURST, 3) + 30
        advance_clocks(processes, 2 * burst_s)
        assert [each_process.count_allowed(2 * BURST) for each_process in processes] == [BURST] * 3


async def test_caller_of_a_single_process_has_its_full_budget(engine, tmp_path):
    async with open_processes(engine, tmp_path, 3, **KEY) as processes:
        first, passed = processes[0], 0
        for _ in range(300):
            passed += first.count_allowed(30)
            for process in processes:
                await process.exchange()
            advance_clocks(processes, 0.1)
        # as a single process admits: the burst, then one call every tenth of a second
        assert passed == BURST + 300 - 1


async def test_calls_passed_by_a_process_count_in_the_next_process(engine, tmp_path):
    async with open_processes(engine, tmp_path, 2, **KEY) as (first, second):
        assert first.count_allowed(BURST) == BURST
        await first.exchange()
        assert second.count_allowed(UNTOLD) == UNTOLD
        await second.exchange()
        assert second.count_allowed(1) == 0
        assert second.count_allowed(1, "another") == 1


async def test_caller_address_is_not_readable_in_the_store(engine, tmp_path):
    async with open_processes(
        engine, tmp_path, 2, failure_per_minute=60, failure_burst=60
    ) as processes:
        first, _ = processes
        for _ in range(60):
            first.is_blocked_after_failure("192.0.2.77")
        held = [first.limits.streams.hold_for_anonymous("192.0.2.77") for _ in range(100)]
        await first.exchange()
        for table in ("shared_budget", "shared_hold"):
            ((key,),) = await execute_beside(first.store, tmp_path, f"SELECT key FROM {table}")
            assert len(key) == 32
            assert int(key, 16)
        assert len(held) == 100


async def test_process_with_a_clock_ahead_locks_no_caller_out(engine, tmp_path):
    # a burst refills in six seconds, and the clocks are five seconds apart
    async with open_processes(engine, tmp_path, 2, ahead_s=5, **KEY) as processes:
        behind, ahead = processes
        for _ in range(100):
            assert (behind.count_allowed(1), ahead.count_allowed(1)) == (1, 1)
            for process in processes:
                await process.exchange()
            advance_clocks(processes, 0.2)
        assert {each_process.sharing.process_count for each_process in processes} == {2}


async def test_process_with_a_clock_ahead_grants_no_extra_calls(engine, tmp_path):
    async with open_processes(engine, tmp_path, 2, ahead_s=3_600, **KEY) as processes:
        assert await _flood(processes, 60) <= BURST + RATE + 2 * UNTOLD + 30


async def test_corrected_clock_neither_blocks_nor_grants_extra_calls(engine, tmp_path):
    async with open_processes(engine, tmp_path, 2, **KEY) as processes:
        wrong, right = processes
        wrong.clock.advance(86_400)
        await wrong.exchange()
        await right.exchange()
        wrong.clock.set_back(86_400)
        for _ in range(20):
            assert (wrong.count_allowed(1), right.count_allowed(1)) == (1, 1)
            for process in processes:
                await process.exchange()
            advance_clocks(processes, 0.2)
        assert {each_process.sharing.process_count for each_process in processes} == {2}
        assert await _flood(processes, 60) <= BURST + RATE + 2 * UNTOLD + 30


async def test_new_process_learns_the_budget_used_before_it_started(engine, tmp_path):
    async with open_processes(engine, tmp_path, 2, **KEY) as processes:
        first, _ = processes
        assert first.count_allowed(BURST) == BURST
        await first.exchange()
        late = make_process(first.store, "late", **KEY)
        await late.exchange()
        assert late.count_allowed(UNTOLD) == UNTOLD
        await late.exchange()
        assert late.count_allowed(1) == 0


async def test_calls_during_an_exchange_count_once(engine, tmp_path):
    async with open_processes(engine, tmp_path, 2, **KEY) as (first, second):
        first.count_allowed(20)
        telling = asyncio.create_task(first.exchange())
        await asyncio.sleep(0)
        first.count_allowed(20)
        await telling
        assert first.count_allowed(2 * BURST) == BURST - 40
        await first.exchange()
        second.count_allowed(UNTOLD)
        await second.exchange()
        # everything that was taken, counted once
        assert second.limits.count_key_call("key_1").wait_s == -(-(UNTOLD + 1) * 60 // RATE)


async def test_returned_budget_is_returned_in_all_processes(engine, tmp_path):
    chosen = {"guard_per_minute": 60, "guard_burst": 60}
    async with open_processes(engine, tmp_path, 2, **chosen) as (first, second):
        for _ in range(60):
            first.limits.count_idempotency_key("192.0.2.1")
        await first.exchange()
        for _ in range(40):
            first.limits.release_idempotency_key("192.0.2.1")
        for _ in range(17):
            first.limits.count_idempotency_key("192.0.2.1")
        for _ in range(7):
            second.limits.count_idempotency_key("192.0.2.1")
        # 23 published calls are given back: the net change is too small to be published at once
        await second.exchange()
        with pytest.raises(ApiError):
            second.limits.count_idempotency_key("192.0.2.1")
        for _ in range(23):
            first.limits.count_idempotency_key("192.0.2.1")
        with pytest.raises(ApiError):
            first.limits.count_idempotency_key("192.0.2.1")


async def test_random_keys_create_few_rows(engine, tmp_path):
    async with open_processes(engine, tmp_path, 2, **KEY) as (first, _):
        # keys that are used once cost nothing
        for number in range(100_000):
            first.count_allowed(1, f"key {number}")
            first.clock.advance(1e-5)
        await first.exchange()
        assert await _rows(first, tmp_path) == 0
        # busy keys are published a few at a time, the busiest first
        for number in range(3_000):
            first.count_allowed(UNTOLD, f"busy {number}")
        first.count_allowed(BURST, "busiest")
        await first.exchange()
        assert await _rows(first, tmp_path) == shared_limits.BUDGETS_MAX
        second = make_process(first.store, "second", **KEY)
        await second.exchange()
        second.count_allowed(UNTOLD, "busiest")
        await second.exchange()
        assert second.count_allowed(1, "busiest") == 0


async def test_rows_of_a_process_are_bounded_and_old_rows_expire(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(shared_limits, "_ROWS_MAX", 30)
    async with open_processes(engine, tmp_path, 2, **KEY) as (first, second):
        for number in range(100):
            first.count_allowed(UNTOLD, f"busy {number}")
        for _ in range(5):
            await first.exchange()
        # keys without a row are counted locally
        assert await _rows(first, tmp_path) == first.sharing.row_count == 100
        for number in range(100, 200):
            first.count_allowed(UNTOLD, f"busy {number}")
        await first.exchange()
        assert await _rows(first, tmp_path) == 100
        assert first.count_allowed(BURST, "busy 150") == BURST - UNTOLD
        # a key with a row is published
        first.count_allowed(BURST, "busy 7")
        await first.exchange()
        second.count_allowed(UNTOLD, "busy 7")
        await second.exchange()
        assert second.count_allowed(1, "busy 7") == 0
        # after a while every budget is full again, which makes room; later the rows are deleted
        for rows in (100, 0):
            advance_clocks([first, second], 80)
            await first.exchange()
            assert await _rows(first, tmp_path) == rows


@pytest.mark.parametrize("ahead_s", [0, 100])
async def test_full_table_accepts_new_keys_after_old_rows_expire(
    engine, tmp_path, monkeypatch, ahead_s
):
    monkeypatch.setattr(shared_limits, "_ROWS_MAX", 1)
    async with open_processes(engine, tmp_path, 2, ahead_s=ahead_s, **KEY) as (first, second):
        first.count_allowed(UNTOLD, "old")
        await first.exchange()
        first.count_allowed(UNTOLD, "new")
        await first.exchange()
        assert first.sharing.row_count == 1
        # sooner than the search for old rows runs
        advance_clocks([first, second], 2)
        first.count_allowed(UNTOLD, "new")
        await first.exchange()
        second.count_allowed(UNTOLD, "new")
        await second.exchange()
        assert second.count_allowed(BURST, "new") < BURST - UNTOLD


async def _old_rows(first, second, count):
    """Create `count` budgets of the first process that have been full for over a minute."""
    for number in range(count):
        first.count_allowed(UNTOLD, f"busy {number}")
    await first.exchange()
    advance_clocks([first, second], 80)


async def test_old_rows_go_a_few_at_a_time_until_none_is_left(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(shared_limits, "_DELETE_MAX", 2)
    async with open_processes(engine, tmp_path, 2, **KEY) as (first, second):
        await _old_rows(first, second, 5)
        left = []
        for _ in range(3):
            await first.exchange()
            left.append(await _rows(first, tmp_path))
        assert left == [3, 1, 0]


async def test_old_rows_are_looked_for_every_ten_seconds(engine, tmp_path, monkeypatch):
    async with open_processes(engine, tmp_path, 2, **KEY) as (process, _):
        write, requests = process.store.write, []

        async def counted(op):
            requests.append(op)
            return await write(op)

        monkeypatch.setattr(process.store, "write", counted)
        counts = []
        for seconds in (9, 2, 1, 9):
            advance_clocks([process], seconds)
            await process.exchange()
            counts.append(len(requests))
            requests.clear()
        # in addition to the exchange
        assert counts == [1, 2, 1, 2]


@pytest.mark.parametrize(
    "error", [StoreUnavailable("it was pulled out"), ApiError(ErrorCode.INTERNAL_ERROR)]
)
async def test_old_rows_stay_while_the_store_is_down(engine, tmp_path, monkeypatch, error):
    async with open_processes(engine, tmp_path, 2, **KEY) as (first, second):
        await _old_rows(first, second, 1)
        write, requests = first.store.write, []

        async def failing(op):
            requests.append(op)
            if len(requests) > 1:
                raise error
            return await write(op)

        with monkeypatch.context() as down:
            down.setattr(first.store, "write", failing)
            await first.exchange()
        assert len(requests) == 2
        assert first.sharing.exchanged_at_us == first.clock.now_us()
        await first.exchange()
        assert await _rows(first, tmp_path) == 0


@pytest.mark.parametrize("seed", range(8))
async def test_store_usage_is_never_below_that_of_a_single_bucket(engine, tmp_path, seed):
    """Everything published counts, in any order, compared with a single bucket."""
    chance, count = random.Random(seed), 2 + seed % 3
    alone, passed = GcraLimiter(RATE, 10**6, 10), 0
    async with open_processes(engine, tmp_path, count, **KEY) as processes:
        began_us = processes[0].clock.now_us()
        for _ in range(200):
            process = chance.choice(processes)
            for _ in range(process.count_allowed(chance.choice([1, 2, 20]))):
                alone.take("key_1", process.clock.now_us())
                passed += 1
            if chance.random() < 0.3:
                await chance.choice(processes).exchange()
            if chance.random() < 0.5:
                advance_clocks(processes, chance.choice([0.05, 0.1, 0.3, 1]))
            for process in processes:
                # as each process does on its own
                if process.clock.now_us() - process.sharing.exchanged_at_us > 1_000_000:
                    await process.exchange()
        for process in processes:
            await process.exchange()
        now_us = processes[0].clock.now_us()
        rows = await execute_beside(
            processes[0].store, tmp_path, "SELECT whole_us FROM shared_budget"
        )
        unreported_us = count * UNTOLD * 60_000_000 // RATE
        assert rows[0][0] >= now_us + alone.get_refill_us("key_1", now_us) - unreported_us
        span = (now_us - began_us) * RATE // 60_000_000
        assert passed <= count * BURST + span + count * UNTOLD


class Pulled:
    """A store that fails before or after it commits."""

    def __init__(self) -> None:
        self.at = ""

    def __call__(self, step: str) -> None:
        if step == self.at:
            raise StoreUnavailable("it was pulled out")


async def test_processes_limit_alone_while_the_store_is_down_and_publish_later(engine, tmp_path):
    pulled = Pulled()
    async with open_processes(engine, tmp_path, 2, fault=pulled, **KEY) as processes:
        pulled.at = "commit"
        passed = await _flood(processes, 60)
        assert passed == 2 * (BURST + RATE - 1)
        assert {each_process.sharing.exchanged_at_us for each_process in processes} == {NOW_US}
        get_sample_value = processes[0].meters.registry.get_sample_value
        assert get_sample_value("florin_limit_exchanges_total", {"outcome": "failed"}) == 600
        pulled.at = ""
        for process in (*processes, *processes):
            await process.exchange()
        # what both admitted is owed, but at most one burst each
        assert (
            processes[1].limits.count_key_call("key_1").wait_s
            <= (2 * BURST - BURST + 1) * 60 / RATE + 1
        )
        assert await _flood(processes, 60) <= RATE + 2 * UNTOLD


async def test_unacknowledged_exchange_counts_at_most_twice(engine, tmp_path):
    pulled = Pulled()
    async with open_processes(engine, tmp_path, 2, fault=pulled, **KEY) as (first, second):
        first.count_allowed(20)
        # the commit succeeded, but the caller got no answer
        pulled.at = "committed"
        await first.exchange()
        pulled.at = ""
        await first.exchange()
        second.count_allowed(UNTOLD)
        await second.exchange()
        assert second.count_allowed(BURST) == BURST - 2 * 20 - UNTOLD
        assert first.count_allowed(1, "another") == 1


async def test_exchanges_go_on_by_themselves_and_at_once_when_much_was_taken(engine, tmp_path):
    async with open_processes(engine, tmp_path, 1, **KEY) as (other,):
        process = make_process(other.store, "one", **KEY)
        async with process.sharing.run_in_background():
            await other.exchange()
            # one heartbeat later it knows that there are two processes
            await wait_until(lambda: process.clock.sleeper_count, 1)
            advance_clocks([process, other], 0.02)
            await wait_until(lambda: process.clock.sleeper_count, 1)
            advance_clocks([process, other], 1)
            await wait_until(lambda: process.sharing.process_count, 2)
            await wait_until(lambda: process.clock.sleeper_count, 1)
            advance_clocks([process, other], 0.02)
            await wait_until(lambda: process.clock.sleeper_count, 1)
            # no time passes, and the count is published
            process.count_allowed(UNTOLD)
            await wait_until(lambda: process.sharing.row_count, 1)
        other.count_allowed(UNTOLD)
        await other.exchange()
        assert other.count_allowed(BURST) == BURST - 2 * UNTOLD


async def _rows(item, folder):
    ((count,),) = await execute_beside(item.store, folder, "SELECT count(*) FROM shared_budget")
    return count
