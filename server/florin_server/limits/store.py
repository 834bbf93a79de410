"""One limit for all processes that share a store: each reports its use and reads the total.

A budget is stored as one number, the time at which it is full again. A process reports its use
since its last report (`taken_us`, the time in which that comes back). It also reports how far away
its own full time is (`ahead_us`), which counts idle time correctly. All times are relative to the
process's own clock, and stored by the clock that is furthest ahead, as machines' clocks may differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, case, delete, func, select

from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    insert,
    is_in,
    isolated,
    operation,
    param,
    upsert,
)
from florin_server.db.engine.schema import HEAD
from florin_server.db.tables.tables import (
    key_turn_table,
    process_table,
    shared_budget_table,
    shared_hold_table,
)

# a process reports every second; one that was silent for this long does not count
ALIVE_US = 5_000_000
# after a minute it is deleted with its data; so are budgets that were full for this long
_FORGET_US = 60_000_000


class SharedBudgetUse(NamedTuple):
    """A process's use of a budget; its full time is at most `max_ahead_us` away."""

    key: str
    taken_us: int
    ahead_us: int
    max_ahead_us: int


class SharedLimitState(NamedTuple):
    """The shared state: number of processes, use of budgets, and what the others hold.

    `ahead_us` is how far away the time is at which a budget is full. `was_registered` is true if
    this process was registered before and its holds still exist. `now_us` is the time of this
    state.
    """

    now_us: int
    processes: int
    was_registered: bool
    ahead_us: Mapping[str, int]
    held_by_others: Mapping[str, int]


def _greatest(left: ColumnElement[Any], right: ColumnElement[Any]) -> ColumnElement[Any]:
    return case((left > right, left), else_=right)


_new = insert(shared_budget_table)
_sum = _greatest(shared_budget_table.c.whole_us + param("taken_us"), _new.excluded.whole_us)


class _ProcessTime(NamedTuple):
    id: str
    now_us: int


class _ReplenishTime(NamedTuple):
    key: str
    whole_us: int


class _Held(NamedTuple):
    key: str
    n: int


_PROCESSES = Statement(select(process_table.c.id, process_table.c.now_us), _ProcessTime)
_BEAT = Command(upsert(process_table, "id"))
_LEAVE = Command(delete(process_table).where(process_table.c.id == param("id")))
_LEAVE_HOLDS = Command(
    delete(shared_hold_table).where(shared_hold_table.c.process_id == param("id"))
)
_LEAVE_TURNS = Command(delete(key_turn_table).where(key_turn_table.c.process_id == param("id")))
_TAKE = Command(
    _new.on_conflict_do_update(
        index_elements=["key"],
        set_={"whole_us": case((_sum < param("most_us"), _sum), else_=param("most_us"))},
    )
)
_REPLENISH_TIMES = Statement(
    select(shared_budget_table.c.key, shared_budget_table.c.whole_us).where(
        is_in(shared_budget_table.c.key, "keys")
    ),
    _ReplenishTime,
)
_HOLD = Command(upsert(shared_hold_table, "process_id", "key"))
_LET_GO = Command(
    delete(shared_hold_table).where(
        shared_hold_table.c.process_id == param("id"), is_in(shared_hold_table.c.key, "keys")
    )
)
_HELD_BY_OTHERS = Statement(
    select(shared_hold_table.c.key, func.sum(shared_hold_table.c.n).label("n"))
    .join(process_table, process_table.c.id == shared_hold_table.c.process_id)
    .where(
        is_in(shared_hold_table.c.key, "keys"),
        process_table.c.id != param("own"),
        process_table.c.now_us > param("since_us"),
    )
    .group_by(shared_hold_table.c.key),
    _Held,
)
_OLD = Statement(
    select(shared_budget_table.c.key)
    .where(shared_budget_table.c.whole_us <= param("until_us"))
    .order_by(shared_budget_table.c.whole_us)
    .limit(param("limit")),
    str,
)
_FORGET = Command(
    delete(shared_budget_table).where(
        shared_budget_table.c.key == param("key_"),
        shared_budget_table.c.whole_us <= param("until_us"),
    )
)


@isolated
def exchange(
    process_id: str,
    now_us: int,
    uses: Sequence[SharedBudgetUse],
    holds: Mapping[str, int],
    held_keys: Sequence[str],
) -> Op[SharedLimitState]:
    """Report a process's use and holds; return the use and holds of all processes.

    `holds` are the changed counts, 0 to remove a count; `held_keys` are the keys whose holds by
    others to return.
    """
    process_times = dict((yield from _PROCESSES.all()))
    before_us = process_times.pop(process_id, None)
    now_us = max(now_us, before_us or 0, *process_times.values())
    yield _BEAT(id=process_id, now_us=now_us, revision=HEAD)
    for name in sorted(process_times):
        if process_times[name] <= now_us - _FORGET_US:
            yield from leave(name)
    ahead_us = yield from _record_uses(uses, now_us)
    yield from _record_holds(process_id, holds)
    held: dict[str, int] = {}
    since_us = now_us - ALIVE_US
    if held_keys:
        report = yield from _HELD_BY_OTHERS.all(keys=held_keys, own=process_id, since_us=since_us)
        held = {key: int(n) for key, n in report}
    alive = 1 + sum(at_us > since_us for at_us in process_times.values())
    return SharedLimitState(now_us, alive, before_us is not None, ahead_us, held)


def _record_uses(uses: Sequence[SharedBudgetUse], now_us: int) -> Op[dict[str, int]]:
    """Record uses; return how far away the full time of each budget is."""
    if not uses:
        return {}
    # in one order, so that no two processes deadlock
    rows = [
        {
            "key": use.key,
            "whole_us": now_us + use.ahead_us,
            "taken_us": use.taken_us,
            "most_us": now_us + use.max_ahead_us,
        }
        for use in sorted(uses)
    ]
    yield _TAKE.bind_many(rows)
    report = yield from _REPLENISH_TIMES.all(keys=[use.key for use in uses])
    return {key: whole_us - now_us for key, whole_us in report}


def _record_holds(process_id: str, holds: Mapping[str, int]) -> Op[None]:
    if gone := [key for key, n in holds.items() if not n]:
        yield _LET_GO(id=process_id, keys=gone)
    if rows := [{"process_id": process_id, "key": key, "n": n} for key, n in holds.items() if n]:
        yield _HOLD.bind_many(rows)


@operation
def leave(process_id: str) -> Op[None]:
    """Delete a process, with its holds and its turns."""
    for statement in (_LEAVE_HOLDS, _LEAVE_TURNS, _LEAVE):
        yield statement(id=process_id)


@isolated
def forget_replenished(now_us: int, limit: int) -> Op[int]:
    """Delete budgets that have been full for a while, the oldest first; return how many."""
    until_us = now_us - _FORGET_US
    old = yield from _OLD.all(until_us=until_us, limit=limit)
    if old:
        # a budget that was used again meanwhile is no longer full
        yield _FORGET.bind_many([{"key_": key, "until_us": until_us} for key in sorted(old)])
    return len(old)
