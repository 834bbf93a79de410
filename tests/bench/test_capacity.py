"""Test that the model of a day keeps count, and that the plan follows from its figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bench import capacity, plan
from tests.bench.capacity import (
    DATABASE,
    GAS,
    KEY,
    NODE,
    SERVICE,
    Chain,
    Costs,
    Demand,
    Growth,
    Installation,
    Queue,
    day,
)
from tests.bench.report import Figure, Measured, Report

COSTS = Costs(service_us=10_000, settle_us=2_000, database_us=5_000, gas=50_000, trials_per_s=1_000)
# 60 payments a second on one chain
CHAIN = Chain(block_s=2, block_gas=60_000_000, share=0.1)
HOUR = Demand(20, seconds=3_600, outage_at_s=1_000, outage_s=300)


def test_minimal_installation_capacity_follows_from_costs():
    assert Installation(chain=CHAIN).carries(COSTS) == {
        SERVICE: 100,
        DATABASE: 200,
        NODE: 500,
        KEY: 400,
        GAS: 60,
    }


@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize("rate", [0.5, 20, 150])
def test_every_payment_is_settled_or_waits(rate, chains):
    reported_day = day(COSTS, Installation(chains=chains, chain=CHAIN), replace(HOUR, rate=rate))
    assert reported_day.arrived == reported_day.settled + reported_day.left > 0
    assert all(0 <= part <= 1 for part in reported_day.busy.values())


def test_a_day_is_the_same_for_the_same_seed_and_another_for_another():
    installation = Installation(chain=CHAIN)
    assert day(COSTS, installation, HOUR) == day(COSTS, installation, HOUR)
    assert day(COSTS, installation, HOUR) != day(COSTS, installation, replace(HOUR, seed=8))


def test_arrivals_match_requested_rate():
    demand = Demand(5)
    assert sum(demand.expected()) == pytest.approx(5 * capacity.DAY_S)
    assert sum(demand.arrivals()) == pytest.approx(5 * capacity.DAY_S, rel=0.01)
    assert demand.peak > 5 * 1.5


def test_growth_follows_from_the_bytes_of_a_payment():
    costs = replace(COSTS, stored_bytes=10_000, log_bytes=20_000, dead_rows=30)
    growth = Growth(costs, rate=100, peak=300)
    assert growth.stored_bytes_a_day == 10_000 * 100 * 86_400
    assert growth.log_bytes_a_day == 2 * growth.stored_bytes_a_day
    assert growth.days_until_full(10 * growth.stored_bytes_a_day) == 10
    assert growth.written_bytes_per_s == 30_000 * 300
    assert growth.dead_rows_per_s == 3_000


def test_a_key_carries_no_more_than_a_core_settles():
    slow = replace(COSTS, settle_us=50_000)
    assert Installation(chain=CHAIN).carries(slow)[KEY] == 20
    # the blocks of the day contain no more than that
    reported_day = day(slow, Installation(chain=CHAIN), Demand(60, seconds=600, bursts=0, swing=0))
    assert reported_day.settled <= 20 * 600


def test_only_the_saturated_resource_has_a_queue():
    # without bursts only one resource is full
    steady = Demand(80, seconds=3_600, bursts=0, swing=0, outage_s=0)
    reported_day = day(COSTS, Installation(chain=CHAIN), steady)
    assert reported_day.longest[GAS] > 20 * 3_000
    assert reported_day.longest[SERVICE] < 200
    assert reported_day.busy[GAS] > 0.99
    slow = replace(COSTS, service_us=20_000)
    reported_day = day(slow, Installation(chains=2, chain=CHAIN), steady)
    assert reported_day.longest[SERVICE] > 30 * 3_000
    assert reported_day.longest[GAS] < 200


def test_an_outage_holds_up_its_own_chain_alone():
    calm = replace(HOUR, bursts=0)
    this_day = day(COSTS, Installation(chain=CHAIN), calm)
    ten = day(COSTS, Installation(chains=10, chain=CHAIN), calm)
    assert max(this_day.waits) >= calm.outage_s
    assert this_day.quantile_s(95) > 100 > ten.quantile_s(90)
    assert 0.05 < sum(n for wait, n in ten.waits.items() if wait > 10) / (300 * 20) < 0.15


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda taken: taken[1:], "arrived"),
        (lambda taken: [*taken, (0, 1)] if taken else taken, "arrived"),
        (lambda taken: [(max(0, at - 1), n) for at, n in taken], "payments waited"),
    ],
    ids=["lost", "made up", "older than it is"],
)
def test_model_that_loses_count_raises(monkeypatch, fault, message):
    take = Queue.take
    monkeypatch.setattr(Queue, "take", lambda self, *, works=True: fault(take(self, works=works)))
    with pytest.raises(ValueError, match=message):
        day(COSTS, Installation(chain=CHAIN), HOUR)


def test_resource_that_exceeds_its_capacity_raises(monkeypatch):
    init = Queue.__init__

    def faster(self, per_step):
        init(self, 100 * per_step)
        monkeypatch.setattr(Queue, "busy", property(lambda item: item.done / item.steps / per_step))

    monkeypatch.setattr(Queue, "__init__", faster)
    with pytest.raises(ValueError, match="was busy"):
        day(COSTS, Installation(chain=CHAIN), Demand(150, seconds=600, outage_s=0))


def test_work_that_is_not_done_cannot_be_saved_up():
    queue = Queue(2.5)
    for _ in range(100):
        assert queue.take() == []
    queue.put(0, 10)
    assert queue.take() == [(0, 3)]
    assert queue.take() == [(0, 3)]
    assert queue.take(works=False) == []
    assert queue.take() == [(0, 2)]


@pytest.mark.parametrize("rate", [10, 100])
def test_no_resource_of_a_planned_installation_is_too_full(rate):
    sized_plan = plan.sized(COSTS, rate, CHAIN)
    loads = sized_plan.installation.loads(COSTS, sized_plan.demand.peak)
    assert max(loads.values()) <= plan.FULL
    # with one unit less of an added resource, a load would exceed it
    for name, field in plan._FIELDS.items():  # noqa: SLF001
        count = getattr(sized_plan.installation, field)
        if count > 1 and name != KEY:
            less = replace(sized_plan.installation, **{field: count - 1})
            assert less.loads(COSTS, sized_plan.demand.peak)[name] > plan.FULL
    assert sized_plan.day.left < sized_plan.demand.peak * 60


def test_costs_come_from_the_figures_of_a_run():
    figures = (
        Figure("payment_us", 5_000, "µs", ""),
        Figure("gas_eip3009", 58_000, "gas", ""),
        Figure("verify_anvil_per_s", 400, "/s", ""),
        Figure("verify_anvil_vs_chain", 0.8, "×", ""),
    )
    costs, sources = plan.costs_of(Report({}, {"all": Measured(1, figures)}))
    assert (costs.service_us, costs.gas, costs.trials_per_s) == (5_000, 58_000, 500)
    assert costs.database_us == plan.DEFAULTS.database_us
    assert sources["database_us"] == "default"
    assert sources["service_us"] == "`payment_us`"
