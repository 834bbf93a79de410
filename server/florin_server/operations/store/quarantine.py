"""Quarantined items: stored, listed, and resolved by the operator.

Their number is limited whatever callers do: beyond `ITEMS_MAX` no item is added, and resolved items
are deleted first.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, case, delete, exists, func, select, text, update

from florin_server.db import generations
from florin_server.db.engine.query import (
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
from florin_server.db.tables.tables import quarantined_item as item
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

_COLUMNS = columns(item, QuarantinedItem)
_KEY = (
    item.c.kind == param("kind_"),
    item.c.chain_id == param("chain"),
    item.c.subject == param("subject_"),
)
_NEW = insert(item)
_PUT = Statement(
    _NEW.on_conflict_do_update(
        index_elements=["kind", "chain_id", "subject"],
        set_={
            "step": _NEW.excluded.step,
            "reason": _NEW.excluded.reason,
            # a resolved item stays resolved
            "state": case(
                (item.c.state == QuarantinedItemState.RESOLVED, item.c.state),
                else_=_NEW.excluded.state,
            ),
            "attempts": item.c.attempts + 1,
            "last_at_us": _NEW.excluded.last_at_us,
        },
    )
)
_THERE = Statement(select(item.c.id).where(*_KEY))
_COUNT = Statement(select(func.count()).select_from(item))
_CLOSED = (
    select(item.c.id)
    .where(item.c.state != QuarantinedItemState.SET_ASIDE)
    .order_by(item.c.last_at_us)
    .limit(param("limit"))
)
_TRIM = Statement(delete(item).where(item.c.id.in_(_CLOSED)))
_LIST_EXCLUDED = Statement(
    select(item.c.kind, item.c.chain_id, item.c.subject)
    .where(text(EXCLUDED_PREDICATE))
    .limit(ITEMS_MAX)
)
_RETRIED = Statement(
    select(item.c.subject).where(
        item.c.state == QuarantinedItemState.RETRIED,
        item.c.kind == param("kind_"),
        item.c.chain_id == param("chain"),
    )
)
_SELECT = select(*_COLUMNS).order_by(item.c.last_at_us.desc(), item.c.id)
_ALL = Statement(_SELECT.limit(param("limit")))
_OPEN = Statement(
    _SELECT.where(item.c.state == QuarantinedItemState.SET_ASIDE).limit(param("limit"))
)
_COUNTS = Statement(
    select(item.c.chain_id, item.c.kind, func.count())
    .where(item.c.state == QuarantinedItemState.SET_ASIDE)
    .group_by(item.c.chain_id, item.c.kind)
    .order_by(item.c.chain_id, item.c.kind)
)
_LOCK = Statement(select(*_COLUMNS).where(item.c.id == param("id_")).with_for_update())
_MOVE = Statement(
    update(item)
    .where(item.c.id == param("id_"))
    .values(state=param("after"), note=param("words"))
    .returning(*_COLUMNS)
)
_OLD = (
    select(item.c.id)
    .where(item.c.state == QuarantinedItemState.RETRIED, item.c.last_at_us < param("before_us"))
    .limit(param("limit"))
)
_FORGET = Statement(delete(item).where(item.c.id.in_(_OLD)).returning(item.c.id))


def is_excluded(kind: QuarantinedItemKind, subject: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that an item of a kind, by its subject's column, is excluded."""
    return (
        exists()
        .where(
            text(f"quarantined_item.{EXCLUDED_PREDICATE}"),
            item.c.kind == kind,
            item.c.subject == subject,
        )
        .correlate_except(item)
    )


@operation
def put(new: QuarantinedItem, companion: Operation[object] | None = None) -> Op[bool]:
    """Quarantine an item, or count another failure, and run `companion`.

    Return False if too many items exist; `companion` still runs.
    """
    if companion is not None:
        yield from companion
    existing_rows = yield _THERE(kind_=new.kind, chain=new.chain_id, subject_=new.subject)
    if not existing_rows:
        ((count,),) = yield _COUNT()
        if count >= ITEMS_MAX:
            yield _TRIM(limit=_TRIMMED)
            ((count,),) = yield _COUNT()
        if count >= ITEMS_MAX:
            return False
    yield _PUT(**to_row_params(new))
    yield from generations.bump(generations.CacheKind.QUARANTINE)
    return True


@operation
def list_excluded() -> Op[frozenset[QuarantineSubject]]:
    """Return what workers exclude: all items that are quarantined or resolved."""
    return frozenset([QuarantineSubject(*row) for row in (yield _LIST_EXCLUDED())])


@operation
def list_retried(kind: QuarantinedItemKind, chain_id: str) -> Op[list[str]]:
    """Return the subjects of a kind that are being retried, or have passed since."""
    return [subject for (subject,) in (yield _RETRIED(kind_=kind, chain=chain_id))]


@operation
def list_items(limit: int, *, include_closed: bool) -> Op[list[QuarantinedItem]]:
    """Return items, the newest first: all, or those that wait for the operator."""
    return [
        QuarantinedItem(*row) for row in (yield (_ALL if include_closed else _OPEN)(limit=limit))
    ]


@operation
def count_open() -> Op[list[tuple[str, QuarantinedItemKind, int]]]:
    """Return how many items wait for the operator: chain (empty for none), kind, count."""
    return [(chain, kind, count) for chain, kind, count in (yield _COUNTS())]


@operation
def lock(item_id: str) -> Op[QuarantinedItem | None]:
    """Return an item, locked until the surrounding operation ends."""
    rows = yield _LOCK(id_=item_id)
    return QuarantinedItem(*rows[0]) if rows else None


@operation
def move(item_id: str, state: QuarantinedItemState, note: str | None) -> Op[QuarantinedItem]:
    """Change the state of an existing item; part of an operation."""
    (row,) = yield _MOVE(id_=item_id, after=state, words=note)
    yield from generations.bump(generations.CacheKind.QUARANTINE)
    return QuarantinedItem(*row)


@operation
def forget(before_us: int, limit: int) -> Op[int]:
    """Delete retried items that did not fail again; return how many."""
    return len((yield _FORGET(before_us=before_us, limit=limit)))
