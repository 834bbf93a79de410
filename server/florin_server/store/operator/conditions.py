"""Conditions as processes report them: the holder of a lease for all, a process about itself.

A source has a row for each subject and name at most, so rows are bounded by the leases and the
processes that were alive within `FORGET_US`. A reader takes `REPORTS_MAX` of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, or_, select

from florin_server.domain.conditions import Condition, ConditionName, State
from florin_server.store.engine.query import Op, Statement, any_of, operation, param, upsert
from florin_server.store.settlement import leases
from florin_server.store.tables.tables import reported_condition as row

# a process reports more often; one that was silent for so long is not alive
ALIVE_US: Final = 30_000_000
# one that starts again on its machine meanwhile takes over since when a condition lasts
FORGET_US: Final = 600_000_000
REPORTS_MAX: Final = 2000

Key = tuple[str, ConditionName]


@dataclass(frozen=True, slots=True)
class Source:
    """The reporter: a lease with the `epoch` in which it is held, or a process on a `host`."""

    name: str
    epoch: int | None = None
    host: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """A condition of a subject (CAIP-2, empty for the installation) by a source."""

    source: str
    subject: str
    condition: Condition


_OF_SOURCE = Statement(
    select(row.c.subject, row.c.name, row.c.state, row.c.since_us).where(
        row.c.source == param("source_")
    )
)
_OF_HOST = Statement(
    select(row.c.subject, row.c.name, row.c.state, row.c.since_us).where(
        row.c.host == param("host_"), row.c.source != param("source_")
    )
)
_PUT = Statement(upsert(row, "source", "subject", "name"))
_DROP = Statement(
    delete(row).where(
        row.c.source == param("source_"),
        row.c.subject == param("subject_"),
        row.c.name == param("name_"),
    )
)
_FORGET = Statement(delete(row).where(row.c.host != "", row.c.seen_us < param("until_us")))
_ALIVE = Statement(
    select(row.c.source, row.c.subject, row.c.name, row.c.state, row.c.reason, row.c.since_us)
    .where(or_(any_of(row.c.source, "sources"), (row.c.host != "") & (row.c.seen_us > param("at"))))
    .order_by(row.c.source, row.c.subject, row.c.name)
    .limit(REPORTS_MAX)
)


@operation
def report(
    source: Source, found: Mapping[Key, Condition], now_us: int, unknown: Collection[Key] = ()
) -> Op[bool]:
    """Replace what a source reports, but not the `unknown`.

    False if its lease is held in another epoch now.

    A condition in the same state as before keeps its time, whoever reported it under the lease; a
    process takes over the times of processes on its machine that ended a short time ago.
    """
    if source.epoch is not None and not (yield from leases.is_current(source.name, source.epoch)):
        return False
    before = _since((yield _OF_SOURCE(source_=source.name)))
    earlier: Mapping[tuple[str, str], tuple[State, int]] = {}
    if source.host:
        yield _FORGET(until_us=now_us - FORGET_US)
        earlier = _since((yield _OF_HOST(host_=source.host, source_=source.name)))
    rows = [
        {
            "source": source.name,
            "subject": subject,
            "name": name,
            "state": one.state,
            "reason": one.reason,
            "since_us": _kept((before, earlier), (subject, name), one),
            "seen_us": now_us,
            "host": source.host,
        }
        for (subject, name), one in sorted(found.items())
    ]
    gone = sorted(before.keys() - found.keys() - set(unknown))
    if gone:
        yield _DROP.many(
            [{"source_": source.name, "subject_": one, "name_": name} for one, name in gone]
        )
    if rows:
        yield _PUT.many(rows)
    return True


@operation
def reports(sources: Collection[str], now_us: int) -> Op[Sequence[Report]]:
    """Return what the leases report whose names are given, and every process that is alive.

    At most `REPORTS_MAX`; names of another release are left out.
    """
    rows = yield _ALIVE(sources=sources, at=now_us - ALIVE_US)
    known = frozenset(ConditionName)
    return [
        Report(source, subject, Condition(ConditionName(name), State(state), reason, since_us))
        for source, subject, name, state, reason, since_us in rows
        if name in known
    ]


def _since(rows: Sequence[tuple[str, str, str, int]]) -> dict[tuple[str, str], tuple[State, int]]:
    """Return state and time by subject and name; the earliest of several."""
    found: dict[tuple[str, str], tuple[State, int]] = {}
    for subject, name, state, since_us in sorted(rows, key=lambda one: -one[3]):
        found[subject, name] = State(state), since_us
    return found


def _kept(
    known: Sequence[Mapping[tuple[str, str], tuple[State, int]]],
    key: tuple[str, str],
    one: Condition,
) -> int:
    times = [at[key][1] for at in known if key in at and at[key][0] is one.state]
    return times[0] if times else one.since_us
