"""Test that the model of a day keeps count, and that installations are as small as possible."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.capacity.day import BACKLOG_STEP_S, Queue, simulate_day
from florin_server.domain.capacity.model import (
    DATABASE,
    DAY_S,
    DISK,
    GAS,
    KEY,
    NODE,
    NOTICES,
    SERVICE,
    VACUUM,
    Chain,
    Costs,
    Demand,
    Disk,
    Growth,
    Installation,
    Notifications,
)
from florin_server.domain.capacity.sizing import COUNT_FIELDS, LOAD_MAX, plan_installation

COSTS = Costs(
    service_us=10_000,
    settle_us=2_000,
    database_us=5_000,
    gas=50_000,
    trials_per_s=1_000,
    stored_bytes=10_000,
    log_bytes=20_000,
    dead_rows=30,
    vacuum_cost=50,
    transaction_ids=2,
    changes=2,
    notify_us=40,
    listener_us=10,
    receive_us=8,
)
# 60 payments a second on one chain
CHAIN = Chain(block_s=2, block_gas=60_000_000, share=0.1)
HOUR = Demand(20, seconds=3_600, outage_at_s=1_000, outage_s=300)


def test_minimal_installation_capacity_follows_from_costs():
    assert Installation(chain=CHAIN, disk=Disk(bytes_per_s=3e6)).carries(COSTS) == {
        SERVICE: 100,
        DATABASE: 200,
        DISK: 100,
        # 200 changes in a notification, of 2 for a payment; each takes 50 µs
        NOTICES: 2_000_000,
        VACUUM: 2_000,
        NODE: 500,
        KEY: 400,
        GAS: 60,
    }


@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize("rate", [0.5, 20, 150])
def test_every_payment_is_settled_or_waits(rate, chains):
    result = simulate_day(COSTS, Installation(chains=chains, chain=CHAIN), replace(HOUR, rate=rate))
    assert result.arrived == result.settled + result.left > 0
    assert all(0 <= part <= 1 for part in result.busy.values())


def test_a_day_is_the_same_for_the_same_seed_and_another_for_another():
    installation = Installation(chain=CHAIN)
    assert simulate_day(COSTS, installation, HOUR) == simulate_day(COSTS, installation, HOUR)
    assert simulate_day(COSTS, installation, HOUR) != simulate_day(
        COSTS, installation, replace(HOUR, seed=8)
    )


def test_arrivals_match_requested_rate():
    demand = Demand(5)
    assert sum(demand.expected()) == pytest.approx(5 * DAY_S)
    assert sum(demand.arrivals()) == pytest.approx(5 * DAY_S, rel=0.01)
    assert demand.peak > 5 * 1.5


def test_growth_follows_from_the_bytes_of_a_payment():
    growth = Growth(COSTS, rate=100, peak=300)
    assert growth.stored_bytes_a_day == 10_000 * 100 * 86_400
    assert growth.log_bytes_a_day == 2 * growth.stored_bytes_a_day
    assert growth.days_until_full(10 * growth.stored_bytes_a_day) == 10
    assert growth.written_bytes_per_s == 30_000 * 300
    assert growth.dead_rows_per_s == 3_000
    assert growth.hours_until_freeze(3) == pytest.approx(3 * 200e6 / (2 * 100) / 3_600)


def test_idle_notification_queue_sends_each_change_at_once():
    sent = Notifications(COSTS, rate=100, listeners=4)
    assert (sent.per_s, sent.changes_each) == (200, 1)
    assert sent.delay_s == pytest.approx(80e-6)
    # of three more than the payment's own cost contains
    assert sent.database_cores == pytest.approx(200 * 30e-6)
    assert sent.service_share == pytest.approx(200 * 8e-6 * 3 / 4)


def test_busy_notification_queue_delays_changes_and_takes_one_core():
    sent = Notifications(COSTS, rate=20_000, listeners=16)
    assert sent.per_s == 5_000
    assert sent.changes_each == 8
    assert sent.delay_s == pytest.approx(16 * 200e-6)
    assert sent.database_cores == pytest.approx(0.75)
    twice = replace(sent, rate=40_000)
    assert (twice.per_s, twice.delay_s) == (sent.per_s, sent.delay_s)
    count = COSTS.count_listeners(1)
    assert Notifications(COSTS, 1e6, count).delay_s <= 1
    assert Notifications(COSTS, 1e6, count + 1).delay_s > 1


def test_notifications_add_load_to_processes_and_to_the_database():
    single, many = Installation(chain=CHAIN), Installation(service_cores=20, chain=CHAIN)
    assert single.loads(COSTS, 50)[DATABASE] == pytest.approx(50 * 0.005)
    sent = many.notifications(COSTS, 50)
    assert sent.listeners == 20
    assert many.loads(COSTS, 50)[DATABASE] == pytest.approx(50 * 0.005 + sent.database_cores)
    assert many.loads(COSTS, 50)[SERVICE] == pytest.approx(50 * 0.01 / 20 + sent.service_share)


def test_full_notification_queue_adds_databases():
    slow = replace(COSTS, notify_us=20_000)
    plan = plan_installation(slow, Demand(1_000), Installation(chain=CHAIN))
    assert plan.installation.databases > 1
    assert plan.installation.loads(slow, plan.demand.peak)[NOTICES] <= LOAD_MAX
    less = replace(plan.installation, databases=plan.installation.databases - 1)
    assert less.loads(slow, plan.demand.peak)[NOTICES] > LOAD_MAX


def test_a_key_carries_no_more_than_a_core_settles():
    slow = replace(COSTS, settle_us=50_000)
    assert Installation(chain=CHAIN).carries(slow)[KEY] == 20
    # the blocks of the day contain no more than that
    result = simulate_day(
        slow, Installation(chain=CHAIN), Demand(60, seconds=600, bursts=0, swing=0)
    )
    assert result.settled <= 20 * 600


def test_only_the_saturated_resource_has_a_queue():
    # without bursts only one resource is full
    steady = Demand(80, seconds=3_600, bursts=0, swing=0, outage_s=0)
    result = simulate_day(COSTS, Installation(chain=CHAIN), steady)
    assert result.longest[GAS] > 20 * 3_000
    assert result.longest[SERVICE] < 200
    assert result.busy[GAS] > 0.99
    slow = replace(COSTS, service_us=20_000)
    result = simulate_day(slow, Installation(chains=2, chain=CHAIN), steady)
    assert result.longest[SERVICE] > 30 * 3_000
    assert result.longest[GAS] < 200


def test_an_outage_holds_up_its_own_chain_alone():
    calm = replace(HOUR, bursts=0)
    result = simulate_day(COSTS, Installation(chain=CHAIN), calm)
    ten = simulate_day(COSTS, Installation(chains=10, chain=CHAIN), calm)
    assert max(result.waits) >= calm.outage_s
    assert result.quantile_s(95) > 100 > ten.quantile_s(90)
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
        simulate_day(COSTS, Installation(chain=CHAIN), HOUR)


def test_resource_that_exceeds_its_capacity_raises(monkeypatch):
    init = Queue.__init__

    def faster(self, per_step):
        init(self, 100 * per_step)
        monkeypatch.setattr(Queue, "busy", property(lambda item: item.done / item.steps / per_step))

    monkeypatch.setattr(Queue, "__init__", faster)
    with pytest.raises(ValueError, match="was busy"):
        simulate_day(COSTS, Installation(chain=CHAIN), Demand(150, seconds=600, outage_s=0))


def test_work_that_is_not_done_cannot_be_saved_up():
    queue = Queue(2.5)
    for _ in range(100):
        assert queue.take() == []
    queue.put(0, 10)
    assert queue.take() == [(0, 3)]
    assert queue.take() == [(0, 3)]
    assert queue.take(works=False) == []
    assert queue.take() == [(0, 2)]


def test_failover_holds_up_payments_in_front_of_the_database_alone():
    calm = replace(HOUR, bursts=0, outage_s=0, failover_at_s=600, failover_s=30)
    result = simulate_day(COSTS, Installation(chains=2, chain=CHAIN), calm)
    without = simulate_day(COSTS, Installation(chains=2, chain=CHAIN), replace(calm, failover_s=0))
    assert result.arrived == without.arrived
    assert result.longest[DATABASE] > 30 * 8 > without.longest[DATABASE]
    assert result.longest[NODE] <= 200
    assert max(result.waits) >= 30 > max(without.waits)
    # what waits is seen while it does, and is gone soon after
    assert len(result.backlog) == 3_600 / BACKLOG_STEP_S
    assert result.backlog[62][DATABASE] > 20 * 8
    assert all(moment[DATABASE] < 100 for moment in result.backlog[66:])


def test_only_a_too_small_disk_adds_a_database():
    least = Installation(chain=CHAIN, disk=Disk(bytes_per_s=3e6))
    plan = plan_installation(COSTS, Demand(100), least)
    assert plan.bottleneck == GAS
    assert plan.installation.databases > 1
    large = replace(least, disk=Disk(bytes_per_s=3e9))
    assert plan_installation(COSTS, Demand(100), large).installation.databases == 1
    assert plan_installation(COSTS, Demand(1), large).bottleneck == ""


@pytest.mark.parametrize("rate", [10, 100, 1_000])
def test_no_resource_of_a_planned_installation_is_too_full(rate):
    demand = Demand(rate)
    plan = plan_installation(COSTS, demand, Installation(chain=CHAIN))
    installation = plan.installation
    assert max(installation.loads(COSTS, demand.peak).values()) <= LOAD_MAX
    # with one unit less of an added resource, a load would exceed it
    for name, field in COUNT_FIELDS.items():
        count = getattr(installation, field)
        if count > 1 and name != KEY:
            less = replace(installation, **{field: count - 1})
            assert less.loads(COSTS, demand.peak)[name] > LOAD_MAX
    assert simulate_day(COSTS, installation, demand).left < demand.peak * 60
