"""Quarantined items: stored, listed, and resolved by the operator.

Their number is limited whatever callers do: beyond `ITEMS_MAX` no item is added, and resolved items
are deleted first.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import ColumnElement, case, delete, exists, func, select, text, update

from florin_server.db import generations
from florin_server.db.engine.query import (
    Command,
    Op,
    Operation,
    Statement,
    columns,
    insert,
    operation,
    param,
    to_row_params,
)
from florin_server.db.tables.quarantine import EXCLUDED_PREDICATE
from florin_server.db.tables.tables import quarantined_item_table
from florin_server.domain.quarantine import (
    QuarantinedItem,
    QuarantinedItemKind,
    QuarantinedItemState,
    QuarantineSubject,
)

# an item takes less than 2 KiB
ITEMS_MAX = 10_000
# closed rows that are deleted at a time to make room
_TRIMMED = 100

_COLUMNS = columns(quarantined_item_table, QuarantinedItem)
_KEY = (
    quarantined_item_table.c.kind == param("kind_"),
    quarantined_item_table.c.chain_id == param("chain"),
    quarantined_item_table.c.subject == param("subject_"),
)
_NEW = insert(quarantined_item_table)


class QuarantinedCount(NamedTuple):
    """The number of items of a kind that wait for the operator; `chain_id` can be empty."""

    chain_id: str
    kind: QuarantinedItemKind
    number: int


_PUT = Command(
    _NEW.on_conflict_do_update(
        index_elements=["kind", "chain_id", "subject"],
        set_={
            "step": _NEW.excluded.step,
            "reason": _NEW.excluded.reason,
            # a resolved item stays resolved
            "state": case(
                (
                    quarantined_item_table.c.state == QuarantinedItemState.RESOLVED,
                    quarantined_item_table.c.state,
                ),
                else_=_NEW.excluded.state,
            ),
            "attempts": quarantined_item_table.c.attempts + 1,
            "last_at_us": _NEW.excluded.last_at_us,
        },
    )
)
_THERE = Statement(select(quarantined_item_table.c.id).where(*_KEY), str)
_COUNT = Statement(select(func.count()).select_from(quarantined_item_table), int)
_CLOSED = (
    select(quarantined_item_table.c.id)
    .where(quarantined_item_table.c.state != QuarantinedItemState.SET_ASIDE)
    .order_by(quarantined_item_table.c.last_at_us)
    .limit(param("limit"))
)
_TRIM = Command(delete(quarantined_item_table).where(quarantined_item_table.c.id.in_(_CLOSED)))
_LIST_EXCLUDED = Statement(
    select(
        quarantined_item_table.c.kind,
        quarantined_item_table.c.chain_id,
        quarantined_item_table.c.subject.label("id"),
    )
    .where(text(EXCLUDED_PREDICATE))
    .limit(ITEMS_MAX),
    QuarantineSubject,
)
_RETRIED = Statement(
    select(quarantined_item_table.c.subject).where(
        quarantined_item_table.c.state == QuarantinedItemState.RETRIED,
        quarantined_item_table.c.kind == param("kind_"),
        quarantined_item_table.c.chain_id == param("chain"),
    ),
    str,
)
_SELECT = select(*_COLUMNS).order_by(
    quarantined_item_table.c.last_at_us.desc(), quarantined_item_table.c.id
)
_ALL = Statement(_SELECT.limit(param("limit")), QuarantinedItem)
_OPEN = Statement(
    _SELECT.where(quarantined_item_table.c.state == QuarantinedItemState.SET_ASIDE).limit(
        param("limit")
    ),
    QuarantinedItem,
)
_SET_ASIDE = (
    select(quarantined_item_table.c.id)
    .where(quarantined_item_table.c.state == QuarantinedItemState.SET_ASIDE)
    .limit(param("limit"))
)
_COUNT_SET_ASIDE = Statement(select(func.count()).select_from(_SET_ASIDE.subquery()), int)
_COUNTS = Statement(
    select(
        quarantined_item_table.c.chain_id,
        quarantined_item_table.c.kind,
        func.count().label("number"),
    )
    .where(quarantined_item_table.c.state == QuarantinedItemState.SET_ASIDE)
    .group_by(quarantined_item_table.c.chain_id, quarantined_item_table.c.kind)
    .order_by(quarantined_item_table.c.chain_id, quarantined_item_table.c.kind),
    QuarantinedCount,
)
_LOCK = Statement(
    select(*_COLUMNS).where(quarantined_item_table.c.id == param("id_")).with_for_update(),
    QuarantinedItem,
)
_MOVE = Statement(
    update(quarantined_item_table)
    .where(quarantined_item_table.c.id == param("id_"))
    .values(state=param("after"), note=param("words"))
    .returning(*_COLUMNS),
    QuarantinedItem,
)
_OLD = (
    select(quarantined_item_table.c.id)
    .where(
        quarantined_item_table.c.state == QuarantinedItemState.RETRIED,
        quarantined_item_table.c.last_at_us < param("before_us"),
    )
    .limit(param("limit"))
)
_FORGET = Statement(
    delete(quarantined_item_table)
    .where(quarantined_item_table.c.id.in_(_OLD))
    .returning(quarantined_item_table.c.id),
    str,
)


def is_excluded(kind: QuarantinedItemKind, subject: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that an item of a kind, by its subject's column, is excluded."""
    return (
        exists()
        .where(
            text(f"quarantined_item.{EXCLUDED_PREDICATE}"),
            quarantined_item_table.c.kind == kind,
            quarantined_item_table.c.subject == subject,
        )
        .correlate_except(quarantined_item_table)
    )


@operation
def put(new: QuarantinedItem, companion: Operation[object] | None = None) -> Op[bool]:
    """Quarantine an item, or count another failure, and run `companion`.

    Return False if too many items exist; `companion` still runs.
    """
    if companion is not None:
        yield from companion
    if not (yield from _THERE.any(kind_=new.kind, chain=new.chain_id, subject_=new.subject)):
        count = yield from _COUNT.single()
        if count >= ITEMS_MAX:
            yield _TRIM(limit=_TRIMMED)
            count = yield from _COUNT.single()
        if count >= ITEMS_MAX:
            return False
    yield _PUT(**to_row_params(new))
    yield from generations.bump(generations.CacheKind.QUARANTINE)
    return True


@operation
def list_excluded() -> Op[frozenset[QuarantineSubject]]:
    """Return what workers exclude: all items that are quarantined or resolved."""
    return frozenset((yield from _LIST_EXCLUDED.all()))


@operation
def list_retried(kind: QuarantinedItemKind, chain_id: str) -> Op[list[str]]:
    """Return the subjects of a kind that are being retried, or have passed since."""
    return (yield from _RETRIED.all(kind_=kind, chain=chain_id))


@operation
def list_items(limit: int, *, include_closed: bool) -> Op[list[QuarantinedItem]]:
    """Return items, the newest first: all, or those that wait for the operator."""
    return (yield from (_ALL if include_closed else _OPEN).all(limit=limit))


@operation
def count_open() -> Op[list[QuarantinedCount]]:
    """Return how many items wait for the operator."""
    return (yield from _COUNTS.all())


@operation
def count_set_aside(limit: int) -> Op[int]:
    """Return how many items wait for a decision, at most `limit`."""
    return (yield from _COUNT_SET_ASIDE.single(limit=limit))


@operation
def lock(item_id: str) -> Op[QuarantinedItem | None]:
    """Return an item, locked until the surrounding operation ends."""
    return (yield from _LOCK.first(id_=item_id))


@operation
def move(item_id: str, state: QuarantinedItemState, note: str | None) -> Op[QuarantinedItem]:
    """Change the state of an existing item; part of an operation."""
    moved = yield from _MOVE.single(id_=item_id, after=state, words=note)
    yield from generations.bump(generations.CacheKind.QUARANTINE)
    return moved


@operation
def forget(before_us: int, limit: int) -> Op[int]:
    """Delete retried items that did not fail again; return how many."""
    return len((yield from _FORGET.all(before_us=before_us, limit=limit)))
