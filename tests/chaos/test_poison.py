"""Test the poison-pill campaign: any worker call fails, and all unrelated work still finishes.

Rounds without faults find the points, which are compared with the workers' code. In each other
round one point of every worker fails: once; or permanently for one item of each kind; or, where no
item is named, several times in a row. The process lives, and every other item finishes. Quarantined
items finish once the operator retries them, and the books balance.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.poison_campaign import Campaign, campaign
from tests.chaos.poison_round import Round
from tests.support.poison import FaultInjector, InjectedFault, install_injector
from tests.support.worker_points import WorkerCodeScan

# CI runs one of so many rounds of each kind, always the same ones; `make poison` runs every round
EVERY = int(os.environ.get("FLORIN_POISON_EVERY", "6"))
# rounds without faults; the second refunds what the first sold
QUIET = 2
IN_A_ROW = 3
# how often a point that met no fault is retried, alone
RETRIES = 3
# points that no round reaches, and why
UNPASSED = {
    "money.payouts.payouts.list_identical": "called only for payouts that the store lost",
    "money.payouts.payouts.claim": "likewise; payouts that are sent are claimed inside another one",
    "operations.quarantine.count_open": "called for conditions, which no worker waits for",
    "db.generations.get_versions": "called only where other processes can use the store",
    "operations.leases.filter_held": "called by processes that do not settle",
    "operations.leases.release_all": "called as a process starts, before its workers",
    "features.webhooks.deliveries.shelve": "written with a delivery that is quarantined",
    "features.event_sink.queue.shelve": "likewise",
    "money.outbox.older_releases.fill_page": "called once processes of older releases have ended",
    "money.outbox.older_releases.release": "likewise",
    "features.monitoring.node_hours.add": "called once a minute, which no round takes",
    "features.monitoring.runways.list_paid_transactions": "likewise",
    "money.ledger.ledger.get_balance": "likewise, with the paid transactions",
    "operations.service.audit_log._record_all": "called for sign-ins that failed; no one signs in",
    "rail.SolanaObserver.confirm_facts": "called only where several nodes have to agree",
    "money.x402.list_settled_for": "called an hour after a payment by x402 on Solana",
    "money.payments.deposits.forget_final": "called once a reorganization removed final blocks",
    "money.x402.release": "called once another transaction took the nonce of a transfer by x402",
    **dict.fromkeys(
        (
            "money.archive.closed.list_ids",
            "money.archive.closed_transactions.list_positions",
            "money.archive.ended_transfers.delete_ended",
            "money.archive.files.add",
            "money.archive.files.find_next_n",
            "money.archive.files.list_unremoved",
            "money.archive.files.mark_removed",
            "money.archive.files.put_unchanged_keys",
            "money.archive.service.archiving._delete",
            "money.archive.service.archiving._read_page",
            "money.archive.service.transactions._delete",
            "money.archive.service.transactions._read_page",
            "money.archive.worker._delete_page",
        ),
        "called for past months; the tests of the archive fail at each of its steps",
    ),
}
_PAYMENTS = "expire_payments: money.payments.payments"
# points reached only after another failure of an item
AFTER = {
    f"{_PAYMENTS}.list_due": f"{_PAYMENTS}.expire_due",
    f"{_PAYMENTS}.expire": f"{_PAYMENTS}.expire_due",
}


@dataclass(frozen=True)
class Plan:
    """The faults of a round; with `names_items` for poisoned items only, for the whole round."""

    points: tuple[str, ...]
    times: int = 1
    names_items: bool = False

    @property
    def kind(self) -> str:
        return "for an item" if self.names_items else "once" if self.times == 1 else "in a row"

    def arm(self, injector: FaultInjector, current: Round) -> None:
        """Arm the faults for a round that starts."""
        current.leaves_poisoned = self.names_items
        names = current.poisoned if self.names_items else ()
        faults = {point: InjectedFault(point, self.times, names) for point in self.points}
        for point in self.points:
            if point in AFTER:
                faults.setdefault(AFTER[point], InjectedFault(AFTER[point]))
        injector.arm(*faults.values())


def group_points(points: Iterable[str]) -> list[tuple[str, ...]]:
    """Return groups that contain each point once, with at most one point per worker in each."""
    by_worker: dict[str, list[str]] = {}
    for point in sorted(points):
        by_worker.setdefault(point.partition(":")[0], []).append(point)
    groups = zip_longest(*by_worker.values())
    return [tuple(point for point in group if point is not None) for group in groups]


def make_plans(points: Collection[str], naming: Collection[str]) -> list[list[Plan]]:
    """Return the rounds in which each point fails, by kind of failure."""
    return [
        [Plan(group) for group in group_points(points)],
        [Plan(group, names_items=True) for group in group_points(set(points) & set(naming))],
        [Plan(group, IN_A_ROW) for group in group_points(set(points) - set(naming))],
    ]


@dataclass
class Outcome:
    """The result of a round: failures per point, quarantined items, and the error."""

    plan: Plan
    hits: dict[str, int]
    count: int
    failure: str = ""

    @property
    def missed(self) -> list[str]:
        return [point for point in self.plan.points if not self.hits.get(point)]


async def try_plan(running: Campaign, plan: Plan) -> Outcome:
    """Run one round with its faults."""
    injector = running.injector
    try:
        count = await running.round(lambda current: plan.arm(injector, current))
    except Exception as error:  # noqa: BLE001  (the other plans still run)
        injector.disarm()
        return Outcome(plan, injector.hits, 0, f"{type(error).__name__}: {error}")
    if plan.kind == "once" and count > len(injector.hits):
        return Outcome(plan, injector.hits, count, "more items are quarantined than failed")
    return Outcome(plan, injector.hits, count)


async def try_plans(running: Campaign, plans: deque[Plan], tries: Counter[Plan]) -> list[Outcome]:
    """Run rounds until no plan is left or one fails; `tries` counts the retries of each plan.

    Retry each point that met no fault alone, for any item: another failure in the same round may
    have kept a worker from reaching the point or the poisoned item.
    """
    outcomes = []
    while plans and not (outcomes and outcomes[-1].failure):
        plan = plans.popleft()
        outcomes.append(await try_plan(running, plan))
        if tries[plan] < RETRIES:
            times = IN_A_ROW if plan.names_items else plan.times
            for point in outcomes[-1].missed:
                alone = Plan((point,), times)
                tries[alone] = tries[plan] + 1
                plans.append(alone)
    return outcomes


def list_armed(outcomes: Iterable[Outcome]) -> set[tuple[str, str]]:
    """Return the points that were armed, by kind of failure."""
    return {(outcome.plan.kind, point) for outcome in outcomes for point in outcome.plan.points}


def never_hit(outcomes: Collection[Outcome]) -> set[tuple[str, str]]:
    """Return the armed points that failed in no round, by kind of failure.

    A failure several times in a row counts as one for an item, too.
    """
    hit = {(outcome.plan.kind, point) for outcome in outcomes for point in outcome.hits}
    hit |= {("for an item", point) for kind, point in hit if kind == "in a row"}
    return list_armed(outcomes) - hit


def drop_workers(points: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the calls at these points, by any worker, and whether they failed once or repeatedly.

    A worker that polls at its own times makes some of its calls in some rounds only, and names an
    item in some of them only. That decides whether the call fails in a row or for an item.
    """
    return {
        ("once" if kind == "once" else "repeatedly", point.partition(": ")[2])
        for kind, point in points
    }


async def run_first(
    home: Path, monkeypatch: Any, injector: FaultInjector, points: Collection[str]
) -> list[Outcome]:
    """Fail in new homes, at points that only they reach: once, and several times in a row."""
    outcomes = []
    for n, group in enumerate(group_points(points)):
        for times in (1, IN_A_ROW):
            injector.arm(*(InjectedFault(point, times) for point in group))
            count, failure = 0, ""
            try:
                async with campaign(home / f"{n}-{times}", monkeypatch, injector) as running:
                    count = await running.round()
                    await running.check()
            except Exception as error:  # noqa: BLE001  (the other plans still run)
                failure = f"{type(error).__name__}: {error}"
            outcomes.append(Outcome(Plan(group, times), injector.hits, count, failure))
    return outcomes


async def run(home: Path, monkeypatch: Any, *, every: int) -> list[Outcome]:
    """Run every `every`-th round of each kind; return the result of each.

    The rounds after a failed round run in a new home.
    """
    injector = install_injector(monkeypatch)
    async with campaign(home / "0", monkeypatch, injector) as running:
        before: dict[str, int] = {}
        for _ in range(QUIET):
            before = dict(injector.points)
            await running.round()
        steady = {point for point, count in injector.points.items() if count > before.get(point, 0)}
        first = injector.points.keys() - steady
        check_nothing_is_left_out(running, injector)
        kinds = make_plans({*steady, *AFTER}, injector.naming)
        plans = deque(plan for plans in kinds for plan in plans[every // 2 :: every])
        tries: Counter[Plan] = Counter()
        outcomes = await try_plans(running, plans, tries)
        if not outcomes[-1].failure:
            await running.check()
    while plans:
        async with campaign(home / f"{len(plans)}", monkeypatch, injector) as running:
            # a round refunds what the previous round sold
            await running.round()
            outcomes += await try_plans(running, plans, tries)
    if every == 1:
        outcomes += await run_first(home / "first", monkeypatch, injector, first)
    return outcomes


def check_nothing_is_left_out(running: Campaign, injector: FaultInjector) -> None:
    """Compare the reached points with the calls in the workers' code."""
    code = WorkerCodeScan()
    declared = code.operations | code.rail_points(running.desk.service.app)
    passed = {point.partition(": ")[2] for point in injector.points} | injector.parts
    after = {point.partition(": ")[2] for point in AFTER}
    assert declared - passed - after == UNPASSED.keys()


def failures(outcomes: Iterable[Outcome]) -> list[str]:
    return [
        f"{outcome.plan.kind} {outcome.hits}: {outcome.failure}"
        for outcome in outcomes
        if outcome.failure
    ]


@pytest.mark.slow
async def test_any_worker_call_may_fail(tmp_path, monkeypatch, capsys):
    outcomes = await run(tmp_path / "home", monkeypatch, every=EVERY)
    with capsys.disabled():
        print()
        for outcome in outcomes:
            print(f"{outcome.plan.kind}: {outcome.count} quarantined {outcome.failure}")
            for point in outcome.plan.points:
                print(f"{outcome.hits.get(point, 0):7} hits  {point}")
        print(
            f"{len(outcomes)} rounds, {sum(not outcome.hits for outcome in outcomes)} "
            f"without a fault"
        )
    assert failures(outcomes) == []
    missed = never_hit(outcomes)
    assert drop_workers(missed) - drop_workers(list_armed(outcomes) - missed) == set()
    assert sum(outcome.count for outcome in outcomes) > len(outcomes)
