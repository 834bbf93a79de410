"""Test the short chaos campaign: all payment methods, faults and attackers, on both chains."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from contextlib import ExitStack

import pytest

from tests.chaos.campaign import find_alarms, find_unraised
from tests.chaos.plan import (
    ADDRESS_KINDS,
    ATTACKERS,
    SHARE_OF_ADDRESSES,
    SHARE_OF_ATTACKERS,
    BuyerBehavior,
    Way,
    plan,
)
from tests.chaos.planted_bugs import PLANTED_BUGS, SEED, is_detected

pytestmark = pytest.mark.slow

# foreign chains outlive the service, embedded ones die with it; together they cover all attackers
# and all that happens at addresses
SEEDS = {"foreign": 6, "embedded": 7}
ORDERS = 30
# the others take as long: python -m tests.chaos.planted_bugs
PLANTED = ("nonces", "second-returns", "forgotten-transfers")
# what buyers do for whom no payment succeeds
UNPAID = {BuyerBehavior.SHORT, BuyerBehavior.TARDY, BuyerBehavior.OTHER_ASSET, BuyerBehavior.GONE}


class Runs:
    """Runs in processes of their own: they fork, which a threaded process must not.

    Those under faults run together, then those with bugs: more at once would be too slow for the
    clock, which runs ten times as fast.
    """

    def __init__(self, make_folder, forks, stack):
        self._make_folder = make_folder
        self._forks = forks
        self._stack = stack
        self._started = {}

    def __getitem__(self, name):
        if name not in self._started:
            for each in SEEDS if name in SEEDS else PLANTED:
                self._started[each] = self._start(each)
        return self._started[name]

    def _start(self, name):
        payments, seed, options = ORDERS, SEEDS.get(name, SEED), []
        if name in PLANTED:
            payments, options = PLANTED_BUGS[name].payments, ["--bug", name]
        elif name == "embedded":
            options = ["--embedded"]
        folder = self._make_folder(name)
        command = ["tests.chaos.campaign", "--payments", str(payments), "--seed", str(seed)]
        process = self._forks.module(*command, "--folder", str(folder), *options, session=True)
        self._stack.callback(end, process)
        return folder / f"seed-{seed}" / "result.json", process


@pytest.fixture(scope="module")
def runs(tmp_path_factory, forks):
    with ExitStack() as stack:
        yield Runs(tmp_path_factory.mktemp, forks, stack)


def end(process):
    """End a process that did not end itself, with all its children."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=240)


def result_of(run):
    path, process = run
    if process.poll() is not None and path.exists():
        return json.loads(path.read_text()), process.returncode
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


def test_all_money_at_addresses_is_at_a_known_place(runs):
    ended = Counter()
    for name in SEEDS:
        result, _ = result_of(runs[name])
        ended.update(result["at_addresses"])
        for sums in result["conserved"].values():
            assert sums.pop("given") == sum(sums.values())
            assert sums["fee"] <= sums["merchant"]
        assert sum(sums["merchant"] for sums in result["conserved"].values()) > 0
    kinds = {tuple(text.partition(":")[0].split(" ", 1)) for text in ended}
    assert kinds == {(str(way), str(behavior)) for way, behavior in ADDRESS_KINDS}
    for way, behavior in ADDRESS_KINDS:
        is_paid = ended[f"{way} {behavior}: succeeded"] > 0
        assert not (is_paid and behavior in UNPAID), (way, behavior)


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
    harmless = {BuyerBehavior.HONEST, BuyerBehavior.UNFETCHED}
    assert {bug.attacker for bug in PLANTED_BUGS.values()} <= {*ATTACKERS, *harmless}


def test_short_runs_have_all_that_happens_at_addresses():
    foreign = plan(SEEDS["foreign"], ORDERS).orders
    embedded = plan(SEEDS["embedded"], ORDERS, embedded=True).orders
    kinds = {(order.way, order.behavior) for order in (*foreign, *embedded)}
    assert kinds >= {*ADDRESS_KINDS}
    of_addresses = [order for order in plan(7, 300).orders if order.way.has_own_address]
    # the first orders have each way
    assert len(of_addresses) == 300 * SHARE_OF_ADDRESSES + 2


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
