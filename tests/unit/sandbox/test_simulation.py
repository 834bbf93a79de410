"""Test simulated payments: what a seed draws, and the loop that detects the end."""

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
from florin_sandbox.simulation.config import InvalidSimulationConfig, SimulationConfig
from florin_sandbox.simulation.population import (
    ABANDONING_BEHAVIORS,
    DAY_US,
    SECOND_US,
    BuyerBehavior,
    generate_plan,
)
from florin_sandbox.simulation.quiet_loop import QuietLoop
from florin_sandbox.simulation.rates import PriceWalk
from hypothesis import given
from hypothesis import strategies as st

# a Monday
pytestmark = pytest.mark.long

BEGIN_US = 1_780_272_000 * SECOND_US
CONFIG = st.builds(
    SimulationConfig,
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
        ({"payments": 2.5}, "payments is 2.5, which is not a number"),
        ({"payments": True}, "payments is True, which is not a number"),
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
            "payments is 20001: at most 20000 per day are allowed",
        ),
    ],
)
def test_impossible_simulation_is_refused_in_a_sentence(chosen, why):
    with pytest.raises(InvalidSimulationConfig) as refused:
        SimulationConfig(**chosen)
    assert str(refused.value) == why


@given(CONFIG)
def test_a_population_is_whole_and_comes_within_its_days(config):
    plan = generate_plan(config, BEGIN_US)
    orders = plan.orders
    assert len(plan.merchants) == config.merchants
    assert [order.number for order in orders] == list(range(config.payments))
    assert all(0 <= order.at_us < config.days * DAY_US for order in orders)
    assert list(orders) == sorted(orders, key=lambda order: order.at_us)
    assert all(50 <= order.cents <= 250_000 for order in orders)
    assert all(order.open_delay_s <= 300 and order.decision_delay_s <= 240 for order in orders)
    shops = [plan.merchants[order.merchant].kind for order in orders]
    assert all(order.currency in kind.currencies for order, kind in zip(orders, shops, strict=True))
    # a returning buyer has the same kind of wallet
    assert all(len(kinds) == 1 for kinds in purses(orders).values())
    for outage in plan.outages:
        assert 0 < outage.start_us <= outage.end_us <= config.days * DAY_US


def purses(orders):
    results = {}
    for order in orders:
        results.setdefault(order.buyer, set()).add(order.wallet_kind)
    return results


@given(CONFIG)
def test_same_seed_draws_the_same_plan_and_another_seed_a_different_plan(config):
    assert generate_plan(config, BEGIN_US) == generate_plan(config, BEGIN_US)
    other = dataclasses.replace(config, seed=(config.seed + 1) % 2**63)
    assert generate_plan(other, BEGIN_US).orders != generate_plan(config, BEGIN_US).orders


def test_planted_faults_do_not_change_the_orders():
    config = SimulationConfig(payments=500)
    calm = generate_plan(config, BEGIN_US)
    planted = generate_plan(
        dataclasses.replace(config, slow_chain="evm", outage_minutes=60), BEGIN_US
    )
    assert planted.orders == calm.orders
    assert (len(calm.outages), len(planted.outages)) == (0, 1)


def test_shares_are_as_chosen_and_hours_as_busy_as_they_are():
    config = SimulationConfig(payments=20_000, days=28, abandoners=0.3)
    orders = generate_plan(config, BEGIN_US).orders
    counts = Counter(order.behavior for order in orders)
    assert set(counts) == set(BuyerBehavior)
    left = sum(counts[behavior] for behavior in ABANDONING_BEHAVIORS) / len(orders)
    assert left == pytest.approx(0.3, abs=0.02)
    moments = [
        datetime.fromtimestamp((BEGIN_US + order.at_us) / SECOND_US, UTC) for order in orders
    ]
    hours = Counter(moment.hour for moment in moments)
    assert hours[12] > 5 * hours[3]
    days = Counter(moment.weekday() for moment in moments)
    assert len(days) == 7
    assert sum(order.is_double_click for order in orders) / len(orders) == pytest.approx(
        0.05, abs=0.01
    )
    assert len({order.buyer for order in orders}) < 0.75 * len(orders)


def test_a_walk_is_the_same_however_often_it_is_looked_at_and_as_wide_as_chosen():
    config, prices = SimulationConfig(days=28, volatility=4.0), {"USD": "2500.00", "EUR": "2300.00"}
    walk, other = PriceWalk(config, prices), PriceWalk(config, prices)
    days = range(300)
    later = [other.get_price("USD", day * DAY_US) for day in reversed(days)]
    result = [walk.get_price("USD", day * DAY_US) for day in days]
    assert result == later[::-1]
    ends = [float(price) for price in result]
    assert ends[0] == 2500.0
    moves = [math.log(after / before) for before, after in pairwise(ends)]
    assert statistics.stdev(moves) == pytest.approx(0.04, rel=0.15)
    assert float(walk.get_price("EUR", DAY_US)) / 2300 != ends[1] / 2500
    assert (
        PriceWalk(dataclasses.replace(config, seed=2), prices).get_price("USD", DAY_US) != result[1]
    )


def test_a_jump_comes_once_and_moves_nothing_else():
    calm = PriceWalk(SimulationConfig(volatility=4.0), {"USD": "2500.00"})
    planted = PriceWalk(SimulationConfig(volatility=4.0, jump=-10.0), {"USD": "2500.00"})
    at_us = planted.jumps_us
    assert calm.jumps_us is None
    assert planted.get_price("USD", at_us - 1) == calm.get_price("USD", at_us - 1)
    for later_us in (at_us, at_us + DAY_US):
        fallen = float(planted.get_price("USD", later_us)) / float(calm.get_price("USD", later_us))
        assert fallen == pytest.approx(0.9)


def test_a_loop_is_quiet_once_threads_and_short_timers_are_done_and_long_ones_may_wait():
    done = []

    async def main():
        loop = asyncio.get_running_loop()
        assert isinstance(loop, QuietLoop)
        working, event = threading.Event(), asyncio.Event()
        loop.add_busy_check(working.is_set)

        def work():
            loop.call_soon_threadsafe(over)

        def over():
            working.clear()
            event.set()
            done.append("thread")

        async def talk():
            working.set()
            threading.Thread(target=work).start()
            await event.wait()
            await asyncio.to_thread(lambda: None)
            await asyncio.sleep(0.01)
            done.append("short timer")
            await asyncio.sleep(3600)
            done.append("long timer")

        talking = asyncio.create_task(talk())
        await loop.wait_until_idle()
        talking.cancel()

    with asyncio.Runner(loop_factory=QuietLoop) as runner:
        runner.run(main())
    assert done == ["thread", "short timer"]
