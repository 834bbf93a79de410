"""Test stream limits across processes: open answers add up, and a dead process's stop counting."""

from __future__ import annotations

import pytest
from florin_server.domain.errors import ApiError
from florin_server.domain.pending_counts import compute_threshold

from tests.support.limit_processes import advance_clocks, make_process, open_processes
from tests.support.store_factories import ENGINES, execute_beside

MOST = 40
ADDRESS = {"held_per_address": MOST}
UNTOLD = compute_threshold(MOST, 2)

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def holds(item, count, address="192.0.2.1"):
    """Take up to `count` stream slots; return the functions that release them."""
    held = []
    for _ in range(count):
        try:
            held.append(item.limits.streams.hold_for_anonymous(address))
        except ApiError:
            break
    return held


def give_back(held):
    for release in held:
        release()
    held.clear()


async def exchange_limits(*processes):
    for process in processes:
        await process.exchange()


async def test_stream_slots_held_by_another_process_are_not_free(engine, tmp_path):
    async with open_processes(engine, tmp_path, 2, **ADDRESS) as (first, second):
        held = holds(first, 30)
        await exchange_limits(first)
        # the second process learns of these slots once it publishes some of its own
        remaining = holds(second, UNTOLD)
        await exchange_limits(second)
        assert len(holds(second, MOST)) == MOST - 30 - UNTOLD
        assert holds(second, 1, "192.0.2.2")
        await exchange_limits(second, first)
        assert holds(first, 1) == []
        give_back(held)
        assert len(remaining) == UNTOLD
        await exchange_limits(first, second)
        assert len(holds(second, MOST)) == 30


async def test_processes_together_exceed_the_stream_limit_only_by_unpublished_slots(
    engine, tmp_path
):
    async with open_processes(engine, tmp_path, 4, **ADDRESS) as processes:
        held = 0
        for _ in range(MOST):
            for process in processes:
                held += len(holds(process, 1))
                await process.exchange()
        assert MOST <= held <= MOST + 4 * compute_threshold(MOST, 4)


async def test_a_dead_process_holds_nothing(engine, tmp_path):
    async with open_processes(engine, tmp_path, 2, **ADDRESS) as (dead, alive):
        holds(dead, MOST)
        await exchange_limits(dead)
        holds(alive, UNTOLD)
        await exchange_limits(alive)
        assert holds(alive, 1) == []
        # a process that may only be slow still counts
        alive.clock.advance(4)
        await exchange_limits(alive)
        assert holds(alive, 1) == []
        alive.clock.advance(1)
        await exchange_limits(alive)
        assert len(holds(alive, MOST)) == MOST - UNTOLD
        alive.clock.advance(60)
        await exchange_limits(alive)
        left = await execute_beside(alive.store, tmp_path, "SELECT process_id FROM shared_hold")
        assert {name for (name,) in left} <= {alive.sharing.process_id}


async def test_returning_process_publishes_all_its_held_slots_again(engine, tmp_path):
    async with open_processes(engine, tmp_path, 2, **ADDRESS) as (away, other):
        holds(away, MOST - UNTOLD)
        await exchange_limits(away)
        other.clock.advance(120)
        await exchange_limits(other)
        holds(other, UNTOLD)
        await exchange_limits(other)
        assert holds(other, 1)
        away.clock.advance(120)
        # the first exchange shows that there are two processes or that a row is gone, the second
        # publishes
        await exchange_limits(away, other, away, other)
        assert holds(other, 1) == []


async def test_a_process_that_stops_holds_nothing_at_once(engine, tmp_path):
    async with open_processes(engine, tmp_path, 1, **ADDRESS) as (stays,):
        leaving = make_process(stays.store, "leaving", **ADDRESS)
        async with leaving.sharing.run_in_background():
            await exchange_limits(stays, leaving)
            holds(leaving, MOST)
            await exchange_limits(leaving)
            holds(stays, UNTOLD)
            await exchange_limits(stays)
            assert holds(stays, 1) == []
        await exchange_limits(stays)
        assert stays.sharing.process_count == 1
        assert len(holds(stays, MOST)) == MOST - UNTOLD


async def test_sole_remaining_process_withdraws_its_published_slots(engine, tmp_path):
    async with open_processes(engine, tmp_path, 2, **ADDRESS) as (first, second):
        holds(first, MOST)
        await exchange_limits(first)
        first.clock.advance(6)
        await exchange_limits(first, first)
        assert first.sharing.process_count == 1
        assert await execute_beside(first.store, tmp_path, "SELECT n FROM shared_hold") == []
        advance_clocks([second], 6)
        await exchange_limits(second, first)
        await exchange_limits(first, second)
        holds(second, UNTOLD)
        await exchange_limits(second)
        assert holds(second, 1) == []


async def test_many_keys_are_few_rows(engine, tmp_path):
    async with open_processes(engine, tmp_path, 2, **ADDRESS) as (first, _):
        for number in range(500):
            holds(first, UNTOLD, f"192.0.{number >> 8}.{number & 255}")
        await exchange_limits(first)
        ((rows,),) = await execute_beside(first.store, tmp_path, "SELECT count(*) FROM shared_hold")
        # one row per address, and one for all callers without credentials
        assert rows == 250 + 1
