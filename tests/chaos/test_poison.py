"""The poison-pill campaign: whatever a worker asks fails, and all that it is not about finishes.

Points are found by rounds without faults, and compared with what the code of the workers has. In
each of the other rounds one point of every worker fails: once, or for one item of each kind for as
long as it lasts, or where nothing names an item for some times in a row. The process lives, every
other item finishes, what was set aside finishes once the operator retries it, and the books are
whole.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.poison_campaign import Campaign, campaign
from tests.chaos.poison_round import Round
from tests.support.poison import Fault, Injector, inject
from tests.support.worker_points import WorkerCode

# rounds of the short form: every so manieth of each kind, the same ones each time
SHORT = 30
# rounds without faults; the second one refunds what the first one sold
QUIET = 2
IN_A_ROW = 3
# how often a point that met no fault is tried again, alone
RETRIES = 3
# what no round passes, and why
UNPASSED = {
    "payouts.payouts.alike": "asked only for payouts that the store lost",
    "payouts.payouts.claim": "likewise; those that are sent are claimed as a part of another one",
    "quarantine.items.counts": "asked by who reports conditions, which no worker waits for",
    "hints.generations.current": "asked only where other processes may have the store",
    "settlement.leases.leased": "asked by processes that do not settle",
    "settlement.leases.free": "asked as a process starts, before its workers",
    "settlement.leases.release": "asked as a process ends, after its workers",
    "webhooks.deliveries.shelve": "written beside a delivery that is set aside",
    "upgrades.older_releases.fill_page": "asked once the processes of an older release have ended",
    "upgrades.older_releases.release": "likewise",
    "rail.EvmObserver.agreed": "asked only where several nodes have to agree",
    "rail.SolanaObserver.agreed": "asked only where several nodes have to agree",
}
# what is asked only after something else failed for an item
AFTER = {
    "expire: payments.payments.due": "expire: payments.payments.expire_due",
    "expire: payments.payments.expire": "expire: payments.payments.expire_due",
}


@dataclass(frozen=True)
class Plan:
    """What fails in a round; with `names_items` for poisoned items alone, as long as it lasts."""

    points: tuple[str, ...]
    times: int = 1
    names_items: bool = False

    @property
    def kind(self) -> str:
        return "for an item" if self.names_items else "once" if self.times == 1 else "in a row"

    def arm(self, injector: Injector, this: Round) -> None:
        """Fail in a round that begins."""
        this.leaves_poisoned = self.names_items
        names = this.poisoned if self.names_items else ()
        faults = {point: Fault(point, self.times, names) for point in self.points}
        for point in self.points:
            if point in AFTER:
                faults.setdefault(AFTER[point], Fault(AFTER[point]))
        injector.arm(*faults.values())


def together(points: Iterable[str]) -> list[tuple[str, ...]]:
    """Return groups of points, in each of them at most one of a worker, that hold each once."""
    by_worker: dict[str, list[str]] = {}
    for point in sorted(points):
        by_worker.setdefault(point.partition(":")[0], []).append(point)
    groups = zip_longest(*by_worker.values())
    return [tuple(point for point in group if point is not None) for group in groups]


def plans_of(points: Collection[str], naming: Collection[str]) -> list[list[Plan]]:
    """Return the rounds in which each point fails, by the way in which it does."""
    return [
        [Plan(group) for group in together(points)],
        [Plan(group, names_items=True) for group in together(set(points) & set(naming))],
        [Plan(group, IN_A_ROW) for group in together(set(points) - set(naming))],
    ]


@dataclass
class Outcome:
    """What a round came to: how often each point failed, how many items were set aside, why not."""

    plan: Plan
    hits: dict[str, int]
    count: int
    failure: str = ""

    @property
    def missed(self) -> list[str]:
        return [point for point in self.plan.points if not self.hits.get(point)]


async def try_plan(running: Campaign, plan: Plan) -> Outcome:
    """Do one round with its faults."""
    injector = running.injector
    try:
        count = await running.round(lambda this: plan.arm(injector, this))
    except Exception as error:  # noqa: BLE001  (the others are tried all the same)
        injector.disarm()
        return Outcome(plan, injector.hits, 0, f"{type(error).__name__}: {error}")
    if plan.kind == "once" and count > len(injector.hits):
        return Outcome(plan, injector.hits, count, "more was set aside than failed")
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


def tried(outcomes: Iterable[Outcome]) -> set[tuple[str, str]]:
    """Return the points that were to fail, by the way in which they were."""
    return {(one.plan.kind, point) for one in outcomes for point in one.plan.points}


def never_hit(outcomes: Collection[Outcome]) -> set[tuple[str, str]]:
    """Return the points, by the way in which they were to fail, that failed in no round.

    Whatever fails in a row fails for an item, too.
    """
    hit = {(one.plan.kind, point) for one in outcomes for point in one.hits}
    hit |= {("for an item", point) for kind, point in hit if kind == "in a row"}
    return tried(outcomes) - hit


def asked(points: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return what is asked at points, whichever worker asks it.

    A worker that looks around at its own times meets some of it in some rounds only.
    """
    return {(kind, point.partition(": ")[2]) for kind, point in points}


async def run_first(
    home: Path, monkeypatch: Any, injector: Injector, points: Collection[str]
) -> list[Outcome]:
    """Fail at points that are passed only while a home is new, once and in a row, in new ones."""
    outcomes = []
    for n, group in enumerate(together(points)):
        for times in (1, IN_A_ROW):
            injector.arm(*(Fault(point, times) for point in group))
            count, failure = 0, ""
            try:
                async with campaign(home / f"{n}-{times}", monkeypatch, injector) as running:
                    count = await running.round()
                    await running.check()
            except Exception as error:  # noqa: BLE001  (the others are tried all the same)
                failure = f"{type(error).__name__}: {error}"
            outcomes.append(Outcome(Plan(group, times), injector.hits, count, failure))
    return outcomes


async def run(home: Path, monkeypatch: Any, *, every: int) -> list[Outcome]:
    """Do every so manieth round of each kind; return what each came to.

    What comes after a round that failed is tried in a home of its own.
    """
    injector = inject(monkeypatch)
    async with campaign(home / "0", monkeypatch, injector) as running:
        before: dict[str, int] = {}
        for _ in range(QUIET):
            before = dict(injector.points)
            await running.round()
        steady = {point for point, count in injector.points.items() if count > before.get(point, 0)}
        first = injector.points.keys() - steady
        check_nothing_is_left_out(running, injector)
        kinds = plans_of({*steady, *AFTER}, injector.naming)
        plans = deque(plan for plans in kinds for plan in plans[every // 2 :: every])
        tries: Counter[Plan] = Counter()
        outcomes = await try_plans(running, plans, tries)
        if not outcomes[-1].failure:
            await running.check()
    while plans:
        async with campaign(home / f"{len(plans)}", monkeypatch, injector) as running:
            # what a round refunds was sold in the one before
            await running.round()
            outcomes += await try_plans(running, plans, tries)
    if every == 1:
        outcomes += await run_first(home / "first", monkeypatch, injector, first)
    return outcomes


def check_nothing_is_left_out(running: Campaign, injector: Injector) -> None:
    """Compare what was passed with what the code of the workers asks."""
    code = WorkerCode()
    declared = code.operations | code.rail_points(running.desk.service.app)
    passed = {point.partition(": ")[2] for point in injector.points} | injector.parts
    after = {point.partition(": ")[2] for point in AFTER}
    assert declared - passed - after == UNPASSED.keys()


def failures(outcomes: Iterable[Outcome]) -> list[str]:
    return [f"{one.plan.kind} {one.hits}: {one.failure}" for one in outcomes if one.failure]


async def test_whatever_a_worker_asks_may_fail(tmp_path, monkeypatch):
    outcomes = await run(tmp_path / "home", monkeypatch, every=SHORT)
    assert failures(outcomes) == []
    # of so few rounds no other one makes up for what one worker did not come to
    assert len(never_hit(outcomes)) <= len(tried(outcomes)) // 10


@pytest.mark.slow
async def test_every_point_of_every_worker_may_fail(tmp_path, monkeypatch, capsys):
    outcomes = await run(tmp_path / "home", monkeypatch, every=1)
    with capsys.disabled():
        print()
        for one in outcomes:
            print(f"{one.plan.kind}: {one.count} set aside {one.failure}")
            for point in one.plan.points:
                print(f"{one.hits.get(point, 0):7} hits  {point}")
        print(f"{len(outcomes)} rounds, {sum(not one.hits for one in outcomes)} without a fault")
    assert failures(outcomes) == []
    missed = never_hit(outcomes)
    assert asked(missed) - asked(tried(outcomes) - missed) == set()
    assert sum(one.count for one in outcomes) > len(outcomes)
