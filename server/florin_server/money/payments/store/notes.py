"""Notes on payments."""

from __future__ import annotations

from sqlalchemy import delete, func, select, update

from florin_server.db.engine.query import Command, Op, Statement, columns, insert, operation, param
from florin_server.db.tables.tables import payment_note_table, payment_table
from florin_server.domain.payments.note import PaymentNote
from florin_server.domain.refusals import payment_archived_error

_note = payment_note_table.c
_COLUMNS = columns(payment_note_table, PaymentNote)
# two notes at the same time must not both be the last one that is possible
_LOCK_PAYMENT = Statement(
    select(payment_table.c.id).where(payment_table.c.id == param("id_")).with_for_update(), str
)
_COUNT = Statement(select(func.count()).where(_note.payment_id == param("payment")), int)
_ADD = Command(insert(payment_note_table))
_LIST = Statement(
    select(*_COLUMNS)
    .where(_note.payment_id == param("payment"), _note.deleted_at_us.is_(None))
    .order_by(_note.created_at_us, _note.id),
    PaymentNote,
)
_LOCK = Statement(
    select(*_COLUMNS)
    .where(_note.id == param("id_"), _note.payment_id == param("payment"))
    .with_for_update(),
    PaymentNote,
)
_SET_DELETED = Statement(
    update(payment_note_table)
    .where(_note.id == param("id_"))
    .values(deleted_at_us=param("deleted_at_us_"))
    .returning(*_COLUMNS),
    PaymentNote,
)
_DUE = Statement(
    select(_note.id)
    .where(_note.deleted_at_us <= param("until_us"))
    .order_by(_note.deleted_at_us)
    .limit(param("limit")),
    str,
)
# restored in between, it stays
_FORGET = Command(
    delete(payment_note_table).where(
        _note.id == param("id_"), _note.deleted_at_us <= param("until_us")
    )
)


@operation
def add(note: PaymentNote, limit: int) -> Op[bool]:
    """Add a note; return False if the payment has as many as possible, with deleted ones.

    ApiError(invalid_state) if the payment is only in the archive.
    """
    if not (yield from _LOCK_PAYMENT.any(id_=note.payment_id)):
        raise payment_archived_error()
    if (yield from _COUNT.single(payment=note.payment_id)) >= limit:
        return False
    yield _ADD(note)
    return True


@operation
def list_notes(payment_id: str) -> Op[list[PaymentNote]]:
    """Return the notes of a payment, the oldest first, without deleted ones."""
    return (yield from _LIST.all(payment=payment_id))


@operation
def lock(payment_id: str, note_id: str) -> Op[PaymentNote | None]:
    """Return a note of a payment, deleted or not, locked; None if it does not exist."""
    return (yield from _LOCK.first(id_=note_id, payment=payment_id))


@operation
def set_deleted(note_id: str, deleted_at_us: int | None) -> Op[PaymentNote]:
    """Delete a note, or restore it; part of an operation that locked it."""
    return (yield from _SET_DELETED.single(id_=note_id, deleted_at_us_=deleted_at_us))


@operation
def forget_deleted(until_us: int, limit: int) -> Op[int]:
    """Delete for good what was deleted until a time, the oldest first; return how many."""
    ids = yield from _DUE.all(until_us=until_us, limit=limit)
    if ids:
        yield _FORGET.bind_many([{"id_": id_, "until_us": until_us} for id_ in sorted(ids)])
    return len(ids)
