"""The short form of the chaos campaign: all ways to pay, all faults and attackers, both chains."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack

import pytest

from tests.chaos.campaign import alarms, unraised
from tests.chaos.holes import HOLES, PAYMENTS, SEED, found
from tests.chaos.plan import FOES, SHARE_OF_FOES, Mood, Way, plan

pytestmark = pytest.mark.long

# foreign chains outlive the service, embedded ones die with it; between them are all attackers
SEEDS = {"foreign": 9, "embedded": 4}
ORDERS = 25
# the others take as long as this: python -m tests.chaos.holes
PLANTED = ("nonces", "returns")


@pytest.fixture(scope="module")
def runs(tmp_path_factory, forks):
    """All at once, each in a process of its own: they fork, which one with threads must not."""
    wanted = {
        "foreign": (ORDERS, SEEDS["foreign"], []),
        "embedded": (ORDERS, SEEDS["embedded"], ["--embedded"]),
        **{hole: (PAYMENTS, SEED, ["--hole", hole]) for hole in PLANTED},
    }
    with ExitStack() as stack:
        started = {}
        for name, (payments, seed, options) in wanted.items():
            folder = tmp_path_factory.mktemp(name)
            command = ["tests.chaos.campaign", "--payments", str(payments), "--seed", str(seed)]
            command += ["--folder", str(folder), *options]
            process = forks.module(*command, session=True)
            stack.callback(end, process)
            started[name] = folder / f"seed-{seed}" / "result.json", process
        yield started


def end(process):
    """With all of its children, if it did not end by itself."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)


def result_of(run):
    path, process = run
    said = process.communicate(timeout=300)
    assert path.exists(), said
    return json.loads(path.read_text()), process.returncode


@pytest.mark.parametrize("name", SEEDS)
def test_every_payment_is_paid_once_or_provably_dead_whatever_fails(runs, name):
    result, code = result_of(runs[name])
    # all of it is told, as no run is like another
    assert not result["bad"], "\n".join(result["bad"])
    assert code == 0
    # it was a storm, and the service died in it
    assert result["deaths"] > 0
    assert sum(result["effects"].values()) > 10
    payments = sum(result["ended"].values())
    assert payments == ORDERS + len(Way) + len(result["lapsed"])
    assert result["ended"]["succeeded"] > len(Way)
    # every honest buyer was paid, and none of those who attack got more than the bounds
    paid, honest = result["honest"].split("/")
    assert paid == honest
    assert result["bill"]["lost_to_code"] <= result["bill"]["bound"]
    # what was to be returned was told
    assert result["alarms"] > 0


@pytest.mark.parametrize("hole", PLANTED)
def test_a_hole_that_is_planted_is_found(runs, hole):
    result, code = result_of(runs[hole])
    assert code == 1
    assert found(hole, result["bad"]), result["bad"]


def test_a_seed_says_all_that_will_go_wrong():
    assert plan(7, 300) == plan(7, 300)
    assert plan(7, 300) != plan(8, 300)
    orders = plan(7, 300).orders
    assert {order.way for order in orders} == set(Way)
    assert {order.mood for order in orders} == set(Mood)


def test_one_in_five_attacks():
    assert plan(7, 300).foes == 300 * SHARE_OF_FOES
    assert "attackers 60 of 300" in plan(7, 300).told()
    alone = {order.mood for order in plan(7, 300, foe=Mood.LATE).orders}
    assert alone & FOES == {Mood.LATE}


def test_the_short_storms_have_attackers_of_every_kind():
    foreign = plan(SEEDS["foreign"], ORDERS).orders
    embedded = plan(SEEDS["embedded"], ORDERS, embedded=True).orders
    assert {order.mood for order in (*foreign, *embedded)} >= FOES
    assert {hole.foe for hole in HOLES.values()} <= {*FOES, Mood.UNFETCHED}


def test_a_fault_of_the_service_in_its_log_is_noticed(tmp_path):
    log = tmp_path / "log"
    log.write_text("1 WARNING settling waits\n2 ERROR asyncio Task exception was never retrieved\n")
    assert len(alarms(log)) == 1


def test_alarms_are_those_that_attackers_raise_and_no_others(tmp_path):
    log = tmp_path / "log"
    log.write_text("1 ERROR payment pay_1 was paid late, or twice\n2 ERROR payment pay_2 is lost\n")
    (other,) = alarms(log, ["payment pay_1 was paid late"])
    assert "pay_2" in other
    assert unraised(log, ["pay_1 was paid late", "pay_3 was paid late"]) == ["pay_3 was paid late"]
