"""Test the short chaos campaign: all payment methods, faults and attackers, on both chains."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack

import pytest

from tests.chaos.campaign import find_alarms, find_unraised
from tests.chaos.plan import ATTACKERS, SHARE_OF_ATTACKERS, BuyerBehavior, Way, plan
from tests.chaos.planted_bugs import PAYMENTS, PLANTED_BUGS, SEED, is_detected

pytestmark = pytest.mark.long

# foreign chains outlive the service, embedded ones die with it; together they cover all attackers
SEEDS = {"foreign": 9, "embedded": 4}
ORDERS = 25
# the others take as long: python -m tests.chaos.planted_bugs
PLANTED = ("nonces", "returns")


@pytest.fixture(scope="module")
def runs(tmp_path_factory, forks):
    """Run all at once, each in its own process: they fork, which a threaded process must not."""
    expected = {
        "foreign": (ORDERS, SEEDS["foreign"], []),
        "embedded": (ORDERS, SEEDS["embedded"], ["--embedded"]),
        **{bug: (PAYMENTS, SEED, ["--bug", bug]) for bug in PLANTED},
    }
    with ExitStack() as stack:
        started = {}
        for name, (payments, seed, options) in expected.items():
            folder = tmp_path_factory.mktemp(name)
            command = ["tests.chaos.campaign", "--payments", str(payments), "--seed", str(seed)]
            command += ["--folder", str(folder), *options]
            process = forks.module(*command, session=True)
            stack.callback(end, process)
            started[name] = folder / f"seed-{seed}" / "result.json", process
        yield started


def end(process):
    """End a process that did not end itself, with all its children."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)


def result_of(run):
    path, process = run
    text = process.communicate(timeout=300)
    assert path.exists(), text
    return json.loads(path.read_text()), process.returncode


@pytest.mark.parametrize("name", SEEDS)
def test_every_payment_is_paid_once_or_provably_dead_under_faults(runs, name):
    result, code = result_of(runs[name])
    # show all of it, since no run is like another
    assert not result["bad"], "\n".join(result["bad"])
    assert code == 0
    # faults occurred, and the service died in them
    assert result["deaths"] > 0
    assert sum(result["effects"].values()) > 10
    payments = sum(result["ended"].values())
    assert payments == ORDERS + len(Way) + len(result["lapsed"])
    assert result["ended"]["succeeded"] > len(Way)
    # every honest buyer was paid, and no attacker got more than the bounds
    paid, honest = result["honest"].split("/")
    assert paid == honest
    assert result["bill"]["lost_to_code"] <= result["bill"]["bound"]
    # every return raised its alarm
    assert result["alarms"] > 0


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_detected(runs, bug):
    result, code = result_of(runs[bug])
    assert code == 1
    assert is_detected(bug, result["bad"]), result["bad"]


def test_equal_seeds_give_equal_plans():
    assert plan(7, 300) == plan(7, 300)
    assert plan(7, 300) != plan(8, 300)
    orders = plan(7, 300).orders
    assert {order.way for order in orders} == set(Way)
    assert {order.behavior for order in orders} == set(BuyerBehavior)


def test_fifth_of_orders_are_attacks():
    assert plan(7, 300).attackers == 300 * SHARE_OF_ATTACKERS
    assert "attackers 60 of 300" in plan(7, 300).describe()
    alone = {order.behavior for order in plan(7, 300, attacker=BuyerBehavior.LATE).orders}
    assert alone & ATTACKERS == {BuyerBehavior.LATE}


def test_short_runs_have_attackers_of_every_kind():
    foreign = plan(SEEDS["foreign"], ORDERS).orders
    embedded = plan(SEEDS["embedded"], ORDERS, embedded=True).orders
    assert {order.behavior for order in (*foreign, *embedded)} >= ATTACKERS
    assert {bug.attacker for bug in PLANTED_BUGS.values()} <= {*ATTACKERS, BuyerBehavior.UNFETCHED}


def test_a_fault_of_the_service_in_its_log_is_noticed(tmp_path):
    log = tmp_path / "log"
    log.write_text("1 WARNING settling waits\n2 ERROR asyncio Task exception was never retrieved\n")
    assert len(find_alarms(log)) == 1


def test_only_alarms_that_attackers_raise_are_expected(tmp_path):
    log = tmp_path / "log"
    log.write_text("1 ERROR payment pay_1 was paid late, or twice\n2 ERROR payment pay_2 is lost\n")
    (other,) = find_alarms(log, ["payment pay_1 was paid late"])
    assert "pay_2" in other
    assert find_unraised(log, ["pay_1 was paid late", "pay_3 was paid late"]) == [
        "pay_3 was paid late"
    ]
