"""Who pays whom, and when: what a seed draws, and the loop that knows when all is done."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import statistics
import threading
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from florin_server.simulation.knobs import BadKnob, Knobs
from florin_server.simulation.population import (
    ABANDONS,
    DAY_US,
    SECOND_US,
    Deed,
    populate,
)
from florin_server.simulation.quiet import QuietLoop
from florin_server.simulation.rates import Walk
from hypothesis import given
from hypothesis import strategies as st

# a Monday
pytestmark = pytest.mark.long

BEGIN_US = 1_780_272_000 * SECOND_US
KNOBS = st.builds(
    Knobs,
    seed=st.integers(0, 2**63 - 1),
    payments=st.integers(1, 300),
    days=st.integers(1, 30),
    merchants=st.integers(1, 50),
    abandoners=st.floats(0, 0.9),
    outage_minutes=st.integers(0, 1440),
    outage_chain=st.sampled_from(["evm", "solana"]),
)


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        ({"payments": 0}, "payments is 0: it must be from 1 to 100000"),
        ({"payments": 2.5}, "payments is 2.5, which is no number"),
        ({"payments": True}, "payments is True, which is no number"),
        ({"days": 366}, "days is 366: it must be from 1 to 365"),
        ({"seed": -1}, "seed is -1: it must be from 0 to 9223372036854775807"),
        ({"merchants": 51}, "merchants is 51: it must be from 1 to 50"),
        ({"abandoners": 1}, "abandoners is 1: it must be from 0.0 to 0.9"),
        ({"abandoners": float("nan")}, "abandoners is nan: it must be from 0.0 to 0.9"),
        ({"slow_chain": "eip155"}, "slow_chain is 'eip155': it must be evm, solana or empty"),
        ({"confirmations": 31}, "confirmations is 31: it must be from 0 to 30"),
        ({"volatility": -1.0}, "volatility is -1.0: it must be from 0.0 to 20.0"),
        ({"jump": 16.0}, "jump is 16.0: it must be from -15.0 to 15.0"),
        ({"outage_chain": ""}, "outage_chain is '': it must be evm or solana"),
        (
            {"payments": 20_001, "days": 1},
            "payments is 20001: there are at most 20000 a day",
        ),
    ],
)
def test_what_cannot_be_simulated_is_told_in_a_sentence(chosen, why):
    with pytest.raises(BadKnob) as refused:
        Knobs(**chosen)
    assert str(refused.value) == why


@given(KNOBS)
def test_a_population_is_whole_and_comes_within_its_days(knobs):
    found = populate(knobs, BEGIN_US)
    orders = found.orders
    assert len(found.merchants) == knobs.merchants
    assert [one.n for one in orders] == list(range(knobs.payments))
    assert all(0 <= one.at_us < knobs.days * DAY_US for one in orders)
    assert list(orders) == sorted(orders, key=lambda one: one.at_us)
    assert all(50 <= one.cents <= 250_000 for one in orders)
    assert all(one.opens_s <= 300 and one.thinks_s <= 240 for one in orders)
    shops = [found.merchants[one.merchant].kind for one in orders]
    assert all(one.currency in kind.currencies for one, kind in zip(orders, shops, strict=True))
    # whoever comes again has the same purse
    assert all(len(kinds) == 1 for kinds in purses(orders).values())
    for outage in found.outages:
        assert 0 < outage.from_us <= outage.until_us <= knobs.days * DAY_US


def purses(orders):
    found = {}
    for one in orders:
        found.setdefault(one.buyer, set()).add(one.purse)
    return found


@given(KNOBS)
def test_a_seed_draws_the_same_again_and_another_one_something_else(knobs):
    assert populate(knobs, BEGIN_US) == populate(knobs, BEGIN_US)
    other = dataclasses.replace(knobs, seed=(knobs.seed + 1) % 2**63)
    assert populate(other, BEGIN_US).orders != populate(knobs, BEGIN_US).orders


def test_what_is_planted_moves_nothing_else():
    knobs = Knobs(payments=500)
    calm = populate(knobs, BEGIN_US)
    planted = populate(dataclasses.replace(knobs, slow_chain="evm", outage_minutes=60), BEGIN_US)
    assert planted.orders == calm.orders
    assert (len(calm.outages), len(planted.outages)) == (0, 1)


def test_shares_are_as_chosen_and_hours_as_busy_as_they_are():
    knobs = Knobs(payments=20_000, days=28, abandoners=0.3)
    orders = populate(knobs, BEGIN_US).orders
    deeds = Counter(one.deed for one in orders)
    assert set(deeds) == set(Deed)
    left = sum(deeds[one] for one in ABANDONS) / len(orders)
    assert left == pytest.approx(0.3, abs=0.02)
    moments = [datetime.fromtimestamp((BEGIN_US + one.at_us) / SECOND_US, UTC) for one in orders]
    hours = Counter(one.hour for one in moments)
    assert hours[12] > 5 * hours[3]
    days = Counter(one.weekday() for one in moments)
    assert len(days) == 7
    assert sum(one.twice for one in orders) / len(orders) == pytest.approx(0.05, abs=0.01)
    assert len({one.buyer for one in orders}) < 0.75 * len(orders)


def test_a_walk_is_the_same_however_often_it_is_looked_at_and_as_wide_as_chosen():
    knobs, prices = Knobs(days=28, volatility=4.0), {"USD": "2500.00", "EUR": "2300.00"}
    walk, other = Walk(knobs, prices), Walk(knobs, prices)
    days = range(300)
    later = [other.price("USD", day * DAY_US) for day in reversed(days)]
    told = [walk.price("USD", day * DAY_US) for day in days]
    assert told == later[::-1]
    ends = [float(price) for price in told]
    assert ends[0] == 2500.0
    moves = [math.log(after / before) for before, after in pairwise(ends)]
    assert statistics.stdev(moves) == pytest.approx(0.04, rel=0.15)
    assert float(walk.price("EUR", DAY_US)) / 2300 != ends[1] / 2500
    assert Walk(dataclasses.replace(knobs, seed=2), prices).price("USD", DAY_US) != told[1]


def test_a_jump_comes_once_and_moves_nothing_else():
    calm = Walk(Knobs(volatility=4.0), {"USD": "2500.00"})
    planted = Walk(Knobs(volatility=4.0, jump=-10.0), {"USD": "2500.00"})
    at_us = planted.jumps_us
    assert calm.jumps_us is None
    assert planted.price("USD", at_us - 1) == calm.price("USD", at_us - 1)
    for later_us in (at_us, at_us + DAY_US):
        fallen = float(planted.price("USD", later_us)) / float(calm.price("USD", later_us))
        assert fallen == pytest.approx(0.9)


def test_a_loop_is_quiet_once_threads_and_short_timers_are_done_and_long_ones_may_wait():
    done = []

    async def main():
        loop = asyncio.get_running_loop()
        assert isinstance(loop, QuietLoop)
        working, told = threading.Event(), asyncio.Event()
        loop.heed(working.is_set)

        def work():
            loop.call_soon_threadsafe(over)

        def over():
            working.clear()
            told.set()
            done.append("thread")

        async def talk():
            working.set()
            threading.Thread(target=work).start()
            await told.wait()
            await asyncio.to_thread(lambda: None)
            await asyncio.sleep(0.01)
            done.append("short timer")
            await asyncio.sleep(3600)
            done.append("long timer")

        talking = asyncio.create_task(talk())
        await loop.quiet()
        talking.cancel()

    with asyncio.Runner(loop_factory=QuietLoop) as runner:
        runner.run(main())
    assert done == ["thread", "short timer"]
