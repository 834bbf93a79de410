"""Conditions that processes report: a lease's holder for all, a process for itself.

A source has at most one row per subject and name. The rows are therefore bounded by the leases, and
the processes that were alive within `FORGET_US`. A reader reads `REPORTS_MAX` rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import delete, or_, select

from florin_server.db.engine.query import Command, Op, Statement, is_in, operation, param, upsert
from florin_server.db.tables.tables import reported_condition_table
from florin_server.domain.conditions import Condition, ConditionName, ConditionState
from florin_server.operations.store import leases

# a process reports more often; one that was silent for this long is not alive
ALIVE_US: Final = 30_000_000
# a process that restarts on its machine within this time keeps its conditions' start times
FORGET_US: Final = 600_000_000
REPORTS_MAX: Final = 2000

ConditionKey = tuple[str, ConditionName]


@dataclass(frozen=True, slots=True)
class ReportSource:
    """The reporter: a lease with its `epoch`, or a process on a `host`."""

    name: str
    epoch: int | None = None
    host: str = ""


@dataclass(frozen=True, slots=True)
class ConditionReport:
    """A condition of a subject (CAIP-2, empty for the installation) by a source."""

    source: str
    subject: str
    condition: Condition


class _Report(NamedTuple):
    subject: str
    name: str
    state: ConditionState
    since_us: int


class _LiveReport(NamedTuple):
    source: str
    subject: str
    name: str
    state: ConditionState
    reason: str
    since_us: int


_OF_SOURCE = Statement(
    select(
        reported_condition_table.c.subject,
        reported_condition_table.c.name,
        reported_condition_table.c.state,
        reported_condition_table.c.since_us,
    ).where(reported_condition_table.c.source == param("source_")),
    _Report,
)
_OF_HOST = Statement(
    select(
        reported_condition_table.c.subject,
        reported_condition_table.c.name,
        reported_condition_table.c.state,
        reported_condition_table.c.since_us,
    ).where(
        reported_condition_table.c.host == param("host_"),
        reported_condition_table.c.source != param("source_"),
    ),
    _Report,
)
_PUT = Command(upsert(reported_condition_table, "source", "subject", "name"))
_DROP = Command(
    delete(reported_condition_table).where(
        reported_condition_table.c.source == param("source_"),
        reported_condition_table.c.subject == param("subject_"),
        reported_condition_table.c.name == param("name_"),
    )
)
_FORGET = Command(
    delete(reported_condition_table).where(
        reported_condition_table.c.host != "",
        reported_condition_table.c.seen_us < param("until_us"),
    )
)
_ALIVE = Statement(
    select(
        reported_condition_table.c.source,
        reported_condition_table.c.subject,
        reported_condition_table.c.name,
        reported_condition_table.c.state,
        reported_condition_table.c.reason,
        reported_condition_table.c.since_us,
    )
    .where(
        or_(
            is_in(reported_condition_table.c.source, "sources"),
            (reported_condition_table.c.host != "")
            & (reported_condition_table.c.seen_us > param("at")),
        )
    )
    .order_by(
        reported_condition_table.c.source,
        reported_condition_table.c.subject,
        reported_condition_table.c.name,
    )
    .limit(REPORTS_MAX),
    _LiveReport,
)


@operation
def report(
    report_source: ReportSource,
    conditions: Mapping[ConditionKey, Condition],
    now_us: int,
    unknown_keys: Collection[ConditionKey] = (),
) -> Op[bool]:
    """Replace a source's reports, except the `unknown_keys`; return False if its lease was lost.

    A lease is lost if it has another epoch now.

    A condition in an unchanged state keeps its start time, whichever process reported it under the
    lease. A process keeps the start times of processes on its machine that ended a short time ago.
    """
    if report_source.epoch is not None and not (
        yield from leases.is_current(report_source.name, report_source.epoch)
    ):
        return False
    before = _group_earliest((yield from _OF_SOURCE.all(source_=report_source.name)))
    earlier: Mapping[tuple[str, str], tuple[ConditionState, int]] = {}
    if report_source.host:
        yield _FORGET(until_us=now_us - FORGET_US)
        earlier = _group_earliest(
            (yield from _OF_HOST.all(host_=report_source.host, source_=report_source.name))
        )
    rows = [
        {
            "source": report_source.name,
            "subject": subject,
            "name": name,
            "state": condition.state,
            "reason": condition.reason,
            "since_us": _find_since((before, earlier), (subject, name), condition),
            "seen_us": now_us,
            "host": report_source.host,
        }
        for (subject, name), condition in sorted(conditions.items())
    ]
    gone = sorted(before.keys() - conditions.keys() - set(unknown_keys))
    if gone:
        yield _DROP.bind_many(
            [
                {"source_": report_source.name, "subject_": subject, "name_": name}
                for subject, name in gone
            ]
        )
    if rows:
        yield _PUT.bind_many(rows)
    return True


@operation
def list_reports(sources: Collection[str], now_us: int) -> Op[Sequence[ConditionReport]]:
    """Return the reports of the named leases, and of every process that is alive.

    At most `REPORTS_MAX`; condition names of another release are left out.
    """
    rows = yield from _ALIVE.all(sources=sources, at=now_us - ALIVE_US)
    names = frozenset(ConditionName)
    return [
        ConditionReport(
            row.source,
            row.subject,
            Condition(ConditionName(row.name), row.state, row.reason, row.since_us),
        )
        for row in rows
        if row.name in names
    ]


def _group_earliest(
    rows: Sequence[_Report],
) -> dict[tuple[str, str], tuple[ConditionState, int]]:
    """Return state and time by subject and name; the earliest of several."""
    earliest: dict[tuple[str, str], tuple[ConditionState, int]] = {}
    for row in sorted(rows, key=lambda row: -row.since_us):
        earliest[row.subject, row.name] = row.state, row.since_us
    return earliest


def _find_since(
    existing: Sequence[Mapping[tuple[str, str], tuple[ConditionState, int]]],
    key: tuple[str, str],
    condition: Condition,
) -> int:
    times = [at[key][1] for at in existing if key in at and at[key][0] is condition.state]
    return times[0] if times else condition.since_us
