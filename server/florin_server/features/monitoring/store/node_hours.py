"""Observations of nodes by the hour; each process adds to the rows of all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import case, delete, select

from florin_server.db.engine.query import Command, Op, Statement, insert, operation, param
from florin_server.db.tables.tables import node_hour_table
from florin_server.domain.node_hours import (
    ANSWER_GROUPS,
    NodeActivity,
    NodeErrorKind,
    NodeHour,
)


class NodeHourKey(NamedTuple):
    """A node of a chain (CAIP-2) by its name, in an hour since the Unix epoch."""

    chain_id: str
    node: str
    hour: int


class _NodeHourEntry(NamedTuple):
    chain_id: str
    node: str
    hour: int
    checks: int
    healthy_checks: int
    probes: int
    lag_sum: int
    lag_max: int
    answers_0: int
    answers_1: int
    answers_2: int
    answers_3: int
    answers_4: int
    answers_5: int
    answers_6: int
    answers_7: int
    answers_8: int
    answers_9: int
    answers_10: int
    answers_11: int
    timeouts: int
    unreachable: int
    rate_limited: int
    refused: int
    stale: int
    wrong_chain: int


_KEY = ("chain_id", "node", "hour")
_new = insert(node_hour_table)
_row, _added = node_hour_table.c, _new.excluded
_ADD = Command(
    _new.on_conflict_do_update(
        index_elements=list(_KEY),
        set_={
            **{
                column.name: column + _added[column.name]
                for column in node_hour_table.c
                if column.name not in _KEY
            },
            "lag_max": case((_row.lag_max > _added.lag_max, _row.lag_max), else_=_added.lag_max),
        },
    )
)
_FORGET = Command(delete(node_hour_table).where(_row.hour < param("first")))
_LIST = Statement(
    select(node_hour_table)
    .where(_row.hour >= param("first"))
    .order_by(_row.chain_id, _row.node, _row.hour),
    _NodeHourEntry,
)


@operation
def add(activities: Mapping[NodeHourKey, NodeActivity], first_hour: int) -> Op[None]:
    """Add observations to those of other processes; delete the hours before the first."""
    # all processes lock the rows in one order
    rows = [_to_row(key, activities[key]) for key in sorted(activities)]
    if rows:
        yield _ADD.bind_many(rows)
    yield _FORGET(first=first_hour)


@operation
def list_hours(first_hour: int) -> Op[dict[tuple[str, str], list[NodeHour]]]:
    """Return the hours of all nodes since one, by chain and node, the oldest first."""
    hours: dict[tuple[str, str], list[NodeHour]] = defaultdict(list)
    for entry in (yield from _LIST.all(first=first_hour)):
        hours[entry.chain_id, entry.node].append(_to_hour(entry))
    return hours


def _to_row(key: NodeHourKey, activity: NodeActivity) -> dict[str, Any]:
    return {
        **key._asdict(),
        "checks": activity.checks,
        "healthy_checks": activity.healthy_checks,
        "probes": activity.probes,
        "lag_sum": activity.lag_sum,
        "lag_max": activity.lag_max,
        **{f"answers_{n}": count for n, count in enumerate(activity.answers)},
        **{kind.value: activity.errors[kind] for kind in NodeErrorKind},
    }


def _to_hour(entry: _NodeHourEntry) -> NodeHour:
    return NodeHour(
        hour=entry.hour,
        checks=entry.checks,
        healthy_checks=entry.healthy_checks,
        probes=entry.probes,
        lag_sum=entry.lag_sum,
        lag_max=entry.lag_max,
        answers=[getattr(entry, f"answers_{n}") for n in range(ANSWER_GROUPS)],
        errors=Counter({kind: getattr(entry, kind) for kind in NodeErrorKind}),
    )
