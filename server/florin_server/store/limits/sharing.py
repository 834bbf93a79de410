"""One limit for all processes that share a store: each tells what it took, and learns the whole.

Of a budget one number is kept, the time at which it is whole again. A process hands in what it took
since it told last (`taken_us`, the time in which that comes back), and how far away the whole looks
to itself (`ahead_us`), which counts idle time rightly. All times are told relative to the process's
own clock, and kept by the one that is farthest ahead: machines' clocks may differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, case, delete, func, select

from florin_server.store.engine.query import (
    Op,
    Statement,
    any_of,
    apart,
    insert,
    operation,
    param,
    upsert,
)
from florin_server.store.engine.schema import HEAD
from florin_server.store.tables.tables import key_turn, process, shared_budget, shared_hold

# a process says every second that it lives; one that was silent for so long counts for nothing
ALIVE_US = 5_000_000
# and is forgotten after a minute, with all it left; so are budgets that were whole for so long
_FORGET_US = 60_000_000


class Use(NamedTuple):
    """What a process took of a budget; `most_us` is as far away as its whole may ever be."""

    key: str
    taken_us: int
    ahead_us: int
    most_us: int


class Whole(NamedTuple):
    """What a process learns of all: how many they are, what they took, and what the others hold.

    `ahead_us` is how far away the time is at which a budget is whole. `known` tells that they had
    heard of it before, and not forgotten what it holds. `now_us` is the time by which this is kept.
    """

    now_us: int
    processes: int
    known: bool
    ahead_us: Mapping[str, int]
    held: Mapping[str, int]


def _larger(one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]:
    return case((one > other, one), else_=other)


_new = insert(shared_budget)
_sum = _larger(shared_budget.c.whole_us + param("taken_us"), _new.excluded.whole_us)
_PROCESSES = Statement(select(process.c.id, process.c.now_us))
_BEAT = Statement(upsert(process, "id"))
_LEAVE = Statement(delete(process).where(process.c.id == param("id")))
_LEAVE_HOLDS = Statement(delete(shared_hold).where(shared_hold.c.process_id == param("id")))
_LEAVE_TURNS = Statement(delete(key_turn).where(key_turn.c.process_id == param("id")))
_TAKE = Statement(
    _new.on_conflict_do_update(
        index_elements=["key"],
        set_={"whole_us": case((_sum < param("most_us"), _sum), else_=param("most_us"))},
    )
)
_WHOLE = Statement(
    select(shared_budget.c.key, shared_budget.c.whole_us).where(any_of(shared_budget.c.key, "keys"))
)
_HOLD = Statement(upsert(shared_hold, "process_id", "key"))
_LET_GO = Statement(
    delete(shared_hold).where(
        shared_hold.c.process_id == param("id"), any_of(shared_hold.c.key, "keys")
    )
)
_HELD = Statement(
    select(shared_hold.c.key, func.sum(shared_hold.c.n))
    .join(process, process.c.id == shared_hold.c.process_id)
    .where(
        any_of(shared_hold.c.key, "keys"),
        process.c.id != param("own"),
        process.c.now_us > param("since_us"),
    )
    .group_by(shared_hold.c.key)
)
_OLD = Statement(
    select(shared_budget.c.key)
    .where(shared_budget.c.whole_us <= param("until_us"))
    .order_by(shared_budget.c.whole_us)
    .limit(param("limit"))
)
_FORGET = Statement(
    delete(shared_budget).where(
        shared_budget.c.key == param("key_"), shared_budget.c.whole_us <= param("until_us")
    )
)


@apart
def exchange(
    own: str, now_us: int, uses: Sequence[Use], holds: Mapping[str, int], asked: Sequence[str]
) -> Op[Whole]:
    """Tells what a process took and holds, and what all of them did.

    `holds` are the counts that changed, 0 for what is not to be told any more; `asked` are keys of
    which it is told what others hold.
    """
    heard: dict[str, int] = dict((yield _PROCESSES()))
    before_us = heard.pop(own, None)
    now_us = max(now_us, before_us or 0, *heard.values())
    yield _BEAT(id=own, now_us=now_us, revision=HEAD)
    for name in sorted(heard):
        if heard[name] <= now_us - _FORGET_US:
            yield from leave(name)
    ahead_us = yield from _take(uses, now_us)
    yield from _hold(own, holds)
    held: dict[str, int] = {}
    since_us = now_us - ALIVE_US
    if asked:
        told = yield _HELD(keys=asked, own=own, since_us=since_us)
        held = {key: int(n) for key, n in told}
    alive = 1 + sum(at_us > since_us for at_us in heard.values())
    return Whole(now_us, alive, before_us is not None, ahead_us, held)


def _take(uses: Sequence[Use], now_us: int) -> Op[dict[str, int]]:
    """Counts what was taken, and tells how far away each whole is."""
    if not uses:
        return {}
    # in one order, so that no two processes wait for each other
    rows = [
        {
            "key": use.key,
            "whole_us": now_us + use.ahead_us,
            "taken_us": use.taken_us,
            "most_us": now_us + use.most_us,
        }
        for use in sorted(uses)
    ]
    yield _TAKE.many(rows)
    told = yield _WHOLE(keys=[use.key for use in uses])
    return {key: whole_us - now_us for key, whole_us in told}


def _hold(own: str, holds: Mapping[str, int]) -> Op[None]:
    if gone := [key for key, n in holds.items() if not n]:
        yield _LET_GO(id=own, keys=gone)
    if kept := [{"process_id": own, "key": key, "n": n} for key, n in holds.items() if n]:
        yield _HOLD.many(kept)


@operation
def leave(own: str) -> Op[None]:
    """Forgets a process, with what it held and the turns that it had."""
    for statement in (_LEAVE_HOLDS, _LEAVE_TURNS, _LEAVE):
        yield statement(id=own)


@apart
def forget_whole(now_us: int, limit: int) -> Op[int]:
    """Deletes budgets that have been whole for a while, the oldest first, and tells how many."""
    until_us = now_us - _FORGET_US
    old = yield _OLD(until_us=until_us, limit=limit)
    if old:
        # one that was used again meanwhile is not whole any more
        yield _FORGET.many([{"key_": key, "until_us": until_us} for (key,) in sorted(old)])
    return len(old)
