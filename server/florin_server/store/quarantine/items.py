"""Items that were set aside: written down, listed, and given back by the operator.

There are so many rows at most, whatever callers do: beyond `ITEMS_MAX` nothing more is written, and
what the operator dealt with goes first.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, case, delete, exists, func, select, text, update

from florin_server.domain.quarantine import ItemKind, ItemState, QuarantinedItem, Subject
from florin_server.store.engine.query import (
    Op,
    Operation,
    Statement,
    columns,
    insert,
    operation,
    param,
    record,
)
from florin_server.store.hints import generations
from florin_server.store.tables.quarantine import LEFT_OUT
from florin_server.store.tables.tables import quarantined_item as item

# an item takes less than 2 KiB
ITEMS_MAX = 10_000
# so many closed rows make room at a time
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
            # what the operator resolved stays resolved
            "state": case(
                (item.c.state == ItemState.RESOLVED, item.c.state), else_=_NEW.excluded.state
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
    .where(item.c.state != ItemState.SET_ASIDE)
    .order_by(item.c.last_at_us)
    .limit(param("limit"))
)
_TRIM = Statement(delete(item).where(item.c.id.in_(_CLOSED)))
_LEFT_OUT = Statement(
    select(item.c.kind, item.c.chain_id, item.c.subject).where(text(LEFT_OUT)).limit(ITEMS_MAX)
)
_RETRIED = Statement(
    select(item.c.subject).where(
        item.c.state == ItemState.RETRIED,
        item.c.kind == param("kind_"),
        item.c.chain_id == param("chain"),
    )
)
_LISTED = select(*_COLUMNS).order_by(item.c.last_at_us.desc(), item.c.id)
_ALL = Statement(_LISTED.limit(param("limit")))
_OPEN = Statement(_LISTED.where(item.c.state == ItemState.SET_ASIDE).limit(param("limit")))
_COUNTS = Statement(
    select(item.c.chain_id, item.c.kind, func.count())
    .where(item.c.state == ItemState.SET_ASIDE)
    .group_by(item.c.chain_id, item.c.kind)
    .order_by(item.c.chain_id, item.c.kind)
)
_ONE = Statement(select(*_COLUMNS).where(item.c.id == param("id_")).with_for_update())
_MOVE = Statement(
    update(item)
    .where(item.c.id == param("id_"))
    .values(state=param("after"), note=param("words"))
    .returning(*_COLUMNS)
)
_OLD = (
    select(item.c.id)
    .where(item.c.state == ItemState.RETRIED, item.c.last_at_us < param("before_us"))
    .limit(param("limit"))
)
_FORGET = Statement(delete(item).where(item.c.id.in_(_OLD)).returning(item.c.id))


def is_left_out(kind: ItemKind, subject: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that an item of a kind, by its subject's column, is left out."""
    return (
        exists()
        .where(text(f"quarantined_item.{LEFT_OUT}"), item.c.kind == kind, item.c.subject == subject)
        .correlate_except(item)
    )


@operation
def put(new: QuarantinedItem, beside: Operation[object] | None = None) -> Op[bool]:
    """Set an item aside, or count that it was once more, and do what belongs to it.

    False if there are too many of them; `beside` is done all the same.
    """
    if beside is not None:
        yield from beside
    known = yield _THERE(kind_=new.kind, chain=new.chain_id, subject_=new.subject)
    if not known:
        ((count,),) = yield _COUNT()
        if count >= ITEMS_MAX:
            yield _TRIM(limit=_TRIMMED)
            ((count,),) = yield _COUNT()
        if count >= ITEMS_MAX:
            return False
    yield _PUT(**record(new))
    yield from generations.bump(generations.Kind.QUARANTINE)
    return True


@operation
def left_out() -> Op[frozenset[Subject]]:
    """Return what workers leave out: all that is set aside or resolved."""
    return frozenset([Subject(*row) for row in (yield _LEFT_OUT())])


@operation
def retried(kind: ItemKind, chain_id: str) -> Op[list[str]]:
    """Return the subjects of one kind that are tried again, or passed since."""
    return [subject for (subject,) in (yield _RETRIED(kind_=kind, chain=chain_id))]


@operation
def listed(limit: int, *, all_: bool) -> Op[list[QuarantinedItem]]:
    """Return items, the newest first: all, or those that wait for the operator."""
    return [QuarantinedItem(*row) for row in (yield (_ALL if all_ else _OPEN)(limit=limit))]


@operation
def counts() -> Op[list[tuple[str, ItemKind, int]]]:
    """Return how many items wait for the operator: chain (empty for none), kind, count."""
    return [(chain, kind, count) for chain, kind, count in (yield _COUNTS())]


@operation
def lock(item_id: str) -> Op[QuarantinedItem | None]:
    """Part of an operation: return an item that nobody else changes until it ends."""
    rows = yield _ONE(id_=item_id)
    return QuarantinedItem(*rows[0]) if rows else None


@operation
def move(item_id: str, state: ItemState, note: str | None) -> Op[QuarantinedItem]:
    """Part of an operation: change the state of an item that is there."""
    (row,) = yield _MOVE(id_=item_id, after=state, words=note)
    yield from generations.bump(generations.Kind.QUARANTINE)
    return QuarantinedItem(*row)


@operation
def forget(before_us: int, limit: int) -> Op[int]:
    """Delete items that were retried and did not come back; return how many."""
    return len((yield _FORGET(before_us=before_us, limit=limit)))
