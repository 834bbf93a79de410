"""Conditions as every process answers them: the leases' holders report, and all read the store.

A process answers for the leases that it holds by what it knows at the moment. Of the others it
reads what their holders reported; what concerns one process alone names that process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, TypeAlias

from florin_server.accounts.service import own_accounts
from florin_server.base.context import EventContext
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.conditions import (
    ANY_PROCESS_CONDITIONS,
    PAYOUT_CONDITIONS,
    PROCESS_CONDITIONS,
    STORE_CONDITIONS,
    Condition,
    ConditionName,
    ConditionState,
)
from florin_server.domain.health import truncate_reason
from florin_server.features.monitoring.service import health
from florin_server.features.monitoring.service.health import FULL_SCOPE, ProbeScope
from florin_server.money.archive.context import ArchiveContext
from florin_server.operations.context import OperationsContext, WorkerContext
from florin_server.operations.roles import LeasedWorker
from florin_server.operations.store import conditions as stored
from florin_server.operations.store import leases
from florin_server.operations.store.conditions import ConditionKey, ConditionReport, ReportSource
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    OperationsContext,
    SettingsContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


# by chain (CAIP-2); those of the installation under the empty text
ConditionsBySubject: TypeAlias = Mapping[str, Sequence[Condition]]
INSTALLATION = ""
_PROCESS_PREFIX = "process:"
_RECONCILED_CONDITION = ConditionName.WALLET_SHORT


class _LeasedWork(NamedTuple):
    """The work of a lease: settling on a chain (CAIP-2), or paying out there."""

    chain_id: str
    is_payout: bool


class LocalConditions(NamedTuple):
    """All conditions as a process finds them, and what it could find before it looked.

    `own_work` is the work whose leases it had; of work that it took over meanwhile it has looked at
    nothing. `reconciled_chain_ids` are the chains whose wallets were compared with the ledger.
    """

    by_subject: ConditionsBySubject
    own_work: frozenset[_LeasedWork]
    reconciled_chain_ids: frozenset[str]


class _ProcessCondition(NamedTuple):
    """A condition, and the process that states it; the holder of a lease is not named."""

    process: str
    condition: Condition


async def list_local_conditions(app: _Context, scope: ProbeScope = FULL_SCOPE) -> LocalConditions:
    """Return all conditions as this process finds them."""
    own_work, reconciled = _list_own_work(app), _list_reconciled(app)
    misdirected: Sequence[tuple[AssetAccount, str]] = ()
    if scope.includes_store:
        misdirected = await own_accounts.list_misdirected(app.rails.values(), app.store.scan)
    prices = app.prices.list_problems(app.clock.now_us())
    conditions: dict[str, Sequence[Condition]] = {}
    for chain_id, rail in app.rails.items():
        chain_conditions = await health.list_chain_conditions(app, rail, misdirected, prices, scope)
        settling = app.settlers[chain_id].health().conditions
        payouts = app.payout_workers.get(chain_id)
        paying = payouts.health().conditions if payouts is not None else ()
        conditions[chain_id] = health.sort_conditions([*settling, *chain_conditions, *paying])
    conditions[INSTALLATION] = await health.list_installation_conditions(app, scope)
    return LocalConditions(conditions, own_work, reconciled)


async def list_conditions(app: _Context, scope: ProbeScope = FULL_SCOPE) -> ConditionsBySubject:
    """Return all conditions as every process answers them.

    Without the store, they are as this process finds them.
    """
    local_conditions = await list_local_conditions(app, scope)
    if not scope.includes_store:
        return local_conditions.by_subject
    names = [name for rail in app.rails.values() for name in _list_lease_names(rail)]
    reports = await app.store.read(stored.list_reports(names, app.clock.now_us()))
    by_key: dict[ConditionKey, list[ConditionReport]] = {}
    for condition_report in reports:
        by_key.setdefault((condition_report.subject, condition_report.condition.name), []).append(
            condition_report
        )
    answered: dict[str, Sequence[Condition]] = {}
    for subject, conditions in local_conditions.by_subject.items():
        mine = {condition.name: condition for condition in conditions}
        # a process that only answers calls knows fewer names than processes that settle
        reported = {name for at, name in by_key if at == subject}
        answered[subject] = health.sort_conditions(
            _merge(
                app,
                mine.get(name),
                by_key.get((subject, name), ()),
                is_held=_is_own(app, local_conditions, subject, name),
            )
            for name in mine.keys() | reported
        )
    return answered


class ProcessReport(NamedTuple):
    """The report of a source; the `unknown_keys` stay as they were reported."""

    source: ReportSource
    conditions: Mapping[ConditionKey, Condition]
    unknown_keys: Collection[ConditionKey] = ()


def list_own_reports(app: _Context, local_conditions: LocalConditions) -> Iterator[ProcessReport]:
    """Yield the reports of this process: one for each lease that it has, and one of itself.

    A worker that has not started yet reports nothing: it has not checked anything.
    """
    own: dict[ConditionKey, Condition] = {}
    by_work: dict[_LeasedWork, dict[ConditionKey, Condition]] = {
        work: {} for work in local_conditions.own_work
    }
    for subject, conditions in local_conditions.by_subject.items():
        for condition in conditions:
            key = subject, condition.name
            if condition.name not in PROCESS_CONDITIONS and _is_own(app, local_conditions, *key):
                by_work[_get_work(app, *key)][key] = condition
            elif (
                condition.state is not ConditionState.OK
                and condition.name in PROCESS_CONDITIONS | ANY_PROCESS_CONDITIONS
            ):
                own[key] = condition
    unknown = [
        (chain_id, _RECONCILED_CONDITION)
        for chain_id in app.rails
        if chain_id not in local_conditions.reconciled_chain_ids
    ]
    for work, reported in by_work.items():
        # the other leases of this process add nothing
        for number, (name, epoch) in enumerate(_get_worker(app, work).leases.items()):
            yield ProcessReport(ReportSource(name, epoch), {} if number else reported, unknown)
    yield ProcessReport(ReportSource(app.process_name.source, host=app.process_name.host), own)


def _merge(
    app: OperationsContext,
    local: Condition | None,
    reports: Iterable[ConditionReport],
    *,
    is_held: bool,
) -> Condition:
    """Return the condition for all processes, from this one's result and all reports."""
    own = [
        condition_report.condition
        for condition_report in reports
        if condition_report.source == app.process_name.source
    ]
    held = [
        condition_report.condition
        for condition_report in reports
        if not condition_report.source.startswith(_PROCESS_PREFIX)
    ]
    conditions = [
        _ProcessCondition(_format_label(condition_report.source), condition_report.condition)
        for condition_report in reports
        if condition_report.source.startswith(_PROCESS_PREFIX)
        and condition_report.source != app.process_name.source
    ]
    by_lease = [_ProcessCondition("", condition) for condition in held]
    if local is None:
        return _combine([*by_lease, *conditions])
    if local.name in PROCESS_CONDITIONS:
        return _combine(
            [
                _ProcessCondition(app.process_name.label, _with_earliest_time(local, own)),
                *conditions,
            ]
        )
    if is_held or local.name in STORE_CONDITIONS or not held:
        return _combine([_ProcessCondition("", _with_earliest_time(local, held)), *conditions])
    if local.name in ANY_PROCESS_CONDITIONS:
        conditions.append(
            _ProcessCondition(app.process_name.label, _with_earliest_time(local, own))
        )
    return _combine([*by_lease, *conditions])


def _combine(conditions: Sequence[_ProcessCondition]) -> Condition:
    """Return the worst of the reported states, with every reason once and its processes."""
    wrong = [
        each_condition
        for each_condition in conditions
        if each_condition.condition.state is not ConditionState.OK
    ]
    if not wrong:
        return conditions[0].condition
    processes: dict[str, set[str]] = {}
    for process, condition in wrong:
        processes.setdefault(condition.reason, set()).add(process)
    reasons = [
        reason if "" in named else f"process {', '.join(sorted(named))}: {reason}"
        for reason, named in processes.items()
    ]
    since_us = min(each_condition.condition.since_us for each_condition in wrong)
    return replace(
        wrong[0].condition, reason=truncate_reason("; ".join(reasons)), since_us=since_us
    )


def _with_earliest_time(local: Condition, reported_conditions: Iterable[Condition]) -> Condition:
    """Return a condition with the time since which it was reported to be in its state."""
    times = [
        condition.since_us for condition in reported_conditions if condition.state is local.state
    ]
    return replace(local, since_us=min(times)) if times else local


def _format_label(source: str) -> str:
    """Return host and process id of a process's source."""
    return ":".join(source.split(":")[1:3])


def _list_lease_names(rail: Rail) -> Iterator[str]:
    senders = [*rail.senders, *([rail.payouts.sender] if rail.payouts is not None else [])]
    return (leases.format_name(rail.chain_id, sender) for sender in senders)


def _get_work(app: ChainContext, subject: str, name: ConditionName) -> _LeasedWork:
    """Return the work whose lease a condition belongs to.

    What is about the installation is reported with the first chain.
    """
    if subject == INSTALLATION:
        return _LeasedWork(min(app.rails, default=""), is_payout=False)
    return _LeasedWork(subject, is_payout=name in PAYOUT_CONDITIONS)


def _list_own_work(app: WorkerContext) -> frozenset[_LeasedWork]:
    """Return the work for which this process reports, as it has the lease and has started."""
    works = {_LeasedWork(settler, is_payout=False) for settler in app.settlers}
    works |= {_LeasedWork(payout_worker, is_payout=True) for payout_worker in app.payout_workers}
    return frozenset(work for work in works if _get_worker(app, work).leases)


def _list_reconciled(app: ChainContext) -> frozenset[str]:
    """Return the chains whose wallets were compared with the ledger since the start."""
    return frozenset(chain_id for chain_id, state in app.chains.items() if state.reconciled_at_us)


def _is_own(
    app: ChainContext, local_conditions: LocalConditions, subject: str, name: ConditionName
) -> bool:
    """Return whether this process reports a condition, by what it has checked."""
    if name is _RECONCILED_CONDITION and subject not in local_conditions.reconciled_chain_ids:
        return False
    return _get_work(app, subject, name) in local_conditions.own_work


def _get_worker(app: WorkerContext, work: _LeasedWork) -> LeasedWorker:
    return (app.payout_workers if work.is_payout else app.settlers)[work.chain_id]
