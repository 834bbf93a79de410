"""Answers that several processes hold count together; those of a dead one count no more."""

from __future__ import annotations

import pytest
from florin_server.domain.errors import FlorinError
from florin_server.domain.tally import share_of

from tests.support.limit_processes import advance, process, processes
from tests.support.store_kit import ENGINES, beside

MOST = 40
ADDRESS = {"held_per_address": MOST}
UNTOLD = share_of(MOST, 2)

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def holds(one, count, address="192.0.2.1"):
    """What gives back the answers that could be held, of so many."""
    held = []
    for _ in range(count):
        try:
            held.append(one.limits.held.by_nobody(address))
        except FlorinError:
            break
    return held


def give_back(held):
    for release in held:
        release()
    held.clear()


async def exchanged(*found):
    for one in found:
        await one.exchange()


async def test_what_others_hold_is_not_free(engine, tmp_path):
    async with processes(engine, tmp_path, 2, **ADDRESS) as (first, second):
        held = holds(first, 30)
        await exchanged(first)
        # what is asked for where nothing is held yet is told first
        others = holds(second, UNTOLD)
        await exchanged(second)
        assert len(holds(second, MOST)) == MOST - 30 - UNTOLD
        assert holds(second, 1, "192.0.2.2")
        await exchanged(second, first)
        assert holds(first, 1) == []
        give_back(held)
        assert len(others) == UNTOLD
        await exchanged(first, second)
        assert len(holds(second, MOST)) == 30


async def test_together_they_hold_no_more_than_what_they_do_not_tell(engine, tmp_path):
    async with processes(engine, tmp_path, 4, **ADDRESS) as found:
        held = 0
        for _ in range(MOST):
            for one in found:
                held += len(holds(one, 1))
                await one.exchange()
        assert MOST <= held <= MOST + 4 * share_of(MOST, 4)


async def test_a_dead_process_holds_nothing(engine, tmp_path):
    async with processes(engine, tmp_path, 2, **ADDRESS) as (dead, alive):
        holds(dead, MOST)
        await exchanged(dead)
        holds(alive, UNTOLD)
        await exchanged(alive)
        assert holds(alive, 1) == []
        # as long as it may only be slow it is counted
        alive.clock.advance(4)
        await exchanged(alive)
        assert holds(alive, 1) == []
        alive.clock.advance(1)
        await exchanged(alive)
        assert len(holds(alive, MOST)) == MOST - UNTOLD
        alive.clock.advance(60)
        await exchanged(alive)
        left = await beside(alive.store, tmp_path, "SELECT process_id FROM shared_hold")
        assert {name for (name,) in left} <= {alive.sharing.process}


async def test_a_process_that_was_only_away_tells_all_again(engine, tmp_path):
    async with processes(engine, tmp_path, 2, **ADDRESS) as (away, other):
        holds(away, MOST - UNTOLD)
        await exchanged(away)
        other.clock.advance(120)
        await exchanged(other)
        holds(other, UNTOLD)
        await exchanged(other)
        assert holds(other, 1)
        away.clock.advance(120)
        # once to learn that they are two, or that it was forgotten, and once to tell
        await exchanged(away, other, away, other)
        assert holds(other, 1) == []


async def test_a_process_that_stops_holds_nothing_at_once(engine, tmp_path):
    async with processes(engine, tmp_path, 1, **ADDRESS) as (stays,):
        leaving = process(stays.store, "leaving", **ADDRESS)
        async with leaving.sharing.running():
            await exchanged(stays, leaving)
            holds(leaving, MOST)
            await exchanged(leaving)
            holds(stays, UNTOLD)
            await exchanged(stays)
            assert holds(stays, 1) == []
        await exchanged(stays)
        assert stays.sharing.processes == 1
        assert len(holds(stays, MOST)) == MOST - UNTOLD


async def test_one_alone_takes_back_what_it_told(engine, tmp_path):
    async with processes(engine, tmp_path, 2, **ADDRESS) as (first, second):
        holds(first, MOST)
        await exchanged(first)
        first.clock.advance(6)
        await exchanged(first, first)
        assert first.sharing.processes == 1
        assert await beside(first.store, tmp_path, "SELECT n FROM shared_hold") == []
        advance([second], 6)
        await exchanged(second, first)
        await exchanged(first, second)
        holds(second, UNTOLD)
        await exchanged(second)
        assert holds(second, 1) == []


async def test_many_keys_are_few_rows(engine, tmp_path):
    async with processes(engine, tmp_path, 2, **ADDRESS) as (first, _):
        for number in range(500):
            holds(first, UNTOLD, f"192.0.{number >> 8}.{number & 255}")
        await exchanged(first)
        ((rows,),) = await beside(first.store, tmp_path, "SELECT count(*) FROM shared_hold")
        # of addresses; and all who need no credential together
        assert rows == 250 + 1
