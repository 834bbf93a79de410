"""Conditions as every process answers them: the leases' holders report, and all read the store.

A process answers for the leases that it holds by what it knows at the moment. Of the others it
reads what their holders reported; what concerns one process alone names that process.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.conditions import (
    FROM_STORE,
    OF_PAYOUTS,
    OF_PROCESS,
    SEEN_BY_ANY,
    Condition,
    ConditionName,
    State,
)
from florin_server.domain.health import cut
from florin_server.flows.accounts import own_accounts
from florin_server.flows.app import App, Settler
from florin_server.flows.operator import health
from florin_server.flows.operator.health import EVERYTHING, Sight
from florin_server.rails.protocol import Rail
from florin_server.store.operator import conditions as stored
from florin_server.store.operator.conditions import Key, Report, Source
from florin_server.store.settlement import leases

# by chain (CAIP-2); those of the installation under the empty text
BySubject: TypeAlias = Mapping[str, Sequence[Condition]]
INSTALLATION = ""
_PROCESS = "process:"
_BOOKS = ConditionName.WALLET_SHORT


class _Work(NamedTuple):
    """What a lease is for: settling on a chain (CAIP-2), or paying out there."""

    chain_id: str
    pays: bool


class _Statement(NamedTuple):
    """A condition, and the process that states it; the holder of a lease is not named."""

    process: str
    condition: Condition


async def look(app: App, sight: Sight = EVERYTHING) -> BySubject:
    """Return all conditions as this process finds them."""
    misdirected: Sequence[tuple[AssetAccount, str]] = ()
    if sight.store:
        misdirected = await own_accounts.misdirected(app.rails.values(), app.store.survey)
    prices = app.prices.problems(app.clock.now_us())
    found: dict[str, Sequence[Condition]] = {}
    for chain_id, rail in app.rails.items():
        others = await health.of_chain(app, rail, misdirected, prices, sight)
        settling = app.settlers[chain_id].health().conditions
        payouts = app.payout_workers.get(chain_id)
        paying = payouts.health().conditions if payouts is not None else ()
        found[chain_id] = health.in_order([*settling, *others, *paying])
    found[INSTALLATION] = await health.of_installation(app, sight)
    return found


async def answer(app: App, sight: Sight = EVERYTHING) -> BySubject:
    """Return all conditions as every process answers them; without the store, as `look`."""
    found = await look(app, sight)
    if not sight.store:
        return found
    names = [name for rail in app.rails.values() for name in _leases_of(rail)]
    reports = await app.store.read(stored.reports(names, app.clock.now_us()))
    by_key: dict[Key, list[Report]] = {}
    for one in reports:
        by_key.setdefault((one.subject, one.condition.name), []).append(one)
    held, answered = _held(app), {}
    for subject, conditions in found.items():
        mine = {one.name: one for one in conditions}
        # a process that only answers knows fewer names than those that settle
        reported = {name for at, name in by_key if at == subject}
        answered[subject] = health.in_order(
            _merge(
                app,
                mine.get(name),
                by_key.get((subject, name), ()),
                is_held=_is_held(app, held, subject, name),
            )
            for name in mine.keys() | reported
        )
    return answered


class OwnReport(NamedTuple):
    """What a source reports; the `unknown` stay as they were reported."""

    source: Source
    found: Mapping[Key, Condition]
    unknown: Collection[Key] = ()


def own_reports(app: App, found: BySubject) -> Iterator[OwnReport]:
    """Yield what this process has to report: for each lease that it holds, and of itself.

    A worker that has not begun reports nothing yet: it has not looked at anything.
    """
    held = _held(app)
    own: dict[Key, Condition] = {}
    by_work: dict[_Work, dict[Key, Condition]] = {work: {} for work in held}
    for subject, conditions in found.items():
        for one in conditions:
            key = subject, one.name
            if one.name not in OF_PROCESS and _is_held(app, held, *key):
                by_work[_work_of(app, *key)][key] = one
            elif one.state is not State.OK and one.name in OF_PROCESS | SEEN_BY_ANY:
                own[key] = one
    unknown = [(chain_id, _BOOKS) for chain_id in app.rails if not _is_compared(app, chain_id)]
    for work, reported in by_work.items():
        # the leases of other keys that are held here have nothing to add
        for number, (name, epoch) in enumerate(_worker(app, work).leases.items()):
            yield OwnReport(Source(name, epoch), {} if number else reported, unknown)
    yield OwnReport(Source(app.process.source, host=app.process.host), own)


def _merge(
    app: App, mine: Condition | None, reports: Iterable[Report], *, is_held: bool
) -> Condition:
    """Return a condition as all processes answer it, given what this one finds and all reported."""
    own = [one.condition for one in reports if one.source == app.process.source]
    held = [one.condition for one in reports if not one.source.startswith(_PROCESS)]
    others = [
        _Statement(_label(one.source), one.condition)
        for one in reports
        if one.source.startswith(_PROCESS) and one.source != app.process.source
    ]
    by_lease = [_Statement("", one) for one in held]
    if mine is None:
        return _combine([*by_lease, *others])
    if mine.name in OF_PROCESS:
        return _combine([_Statement(app.process.label, _lasting(mine, own)), *others])
    if is_held or mine.name in FROM_STORE or not held:
        return _combine([_Statement("", _lasting(mine, held)), *others])
    if mine.name in SEEN_BY_ANY:
        others.append(_Statement(app.process.label, _lasting(mine, own)))
    return _combine([*by_lease, *others])


def _combine(stated: Sequence[_Statement]) -> Condition:
    """Return the worst of what is stated, with every reason once and the processes it is about."""
    wrong = [one for one in stated if one.condition.state is not State.OK]
    if not wrong:
        return stated[0].condition
    processes: dict[str, set[str]] = {}
    for process, condition in wrong:
        processes.setdefault(condition.reason, set()).add(process)
    reasons = [
        reason if "" in named else f"process {', '.join(sorted(named))}: {reason}"
        for reason, named in processes.items()
    ]
    since_us = min(one.condition.since_us for one in wrong)
    return replace(wrong[0].condition, reason=cut("; ".join(reasons)), since_us=since_us)


def _lasting(mine: Condition, reported: Iterable[Condition]) -> Condition:
    """Return a condition with the time since which it was reported to be in its state."""
    times = [one.since_us for one in reported if one.state is mine.state]
    return replace(mine, since_us=min(times)) if times else mine


def _label(source: str) -> str:
    """Return host and process id of a process's source."""
    return ":".join(source.split(":")[1:3])


def _leases_of(rail: Rail) -> Iterator[str]:
    senders = [*rail.senders, *([rail.payouts.sender] if rail.payouts is not None else [])]
    return (leases.name_of(rail.chain_id, one) for one in senders)


def _work_of(app: App, subject: str, name: ConditionName) -> _Work:
    """Return the work whose lease a condition belongs to.

    What is about the installation is reported with the first chain.
    """
    if subject == INSTALLATION:
        return _Work(min(app.rails, default=""), pays=False)
    return _Work(subject, pays=name in OF_PAYOUTS)


def _held(app: App) -> frozenset[_Work]:
    """Return the work for which this process answers, as it has the lease and has begun."""
    works = {_Work(one, pays=False) for one in app.settlers}
    works |= {_Work(one, pays=True) for one in app.payout_workers}
    return frozenset(work for work in works if _worker(app, work).leases)


def _is_held(app: App, held: Container[_Work], subject: str, name: ConditionName) -> bool:
    """Return whether this process answers for a condition, by what it has looked at."""
    if name is _BOOKS and not _is_compared(app, subject):
        return False
    return _work_of(app, subject, name) in held


def _is_compared(app: App, chain_id: str) -> bool:
    """Return whether the wallets of a chain were compared with the books since the start."""
    return app.chains[chain_id].compared_at_us > 0


def _worker(app: App, work: _Work) -> Settler:
    return (app.payout_workers if work.pays else app.settlers)[work.chain_id]
