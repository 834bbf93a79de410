"""Notes on payments: each side deletes its own, and both read all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from florin_server.accounts.store import credential_checks
from florin_server.base.context import EventContext
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject
from florin_server.domain.errors import ApiError, ErrorCode, GrpcStatus, validation_error
from florin_server.domain.ids import generate_short_id
from florin_server.domain.payments.note import NOTES_MAX, PaymentNote, clean_note
from florin_server.domain.payments.payment import Payment
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.payments.service.load import get_payment, is_of_partner
from florin_server.money.payments.store import notes
from florin_server.operations.context import WorkerContext
from florin_server.operations.service.audit_log import audited
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    SettingsContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


async def add(app: _Context, caller: Caller | None, payment_ref: str, text: str) -> PaymentNote:
    """Add a note; a caller of None is the operator.

    payment_not_found; params_validation for an invalid text; invalid_state for one note too many.
    """
    payment = await _find_payment(app, caller, payment_ref)
    try:
        clean = clean_note(text)
    except ValueError as fault:
        raise validation_error("text", str(fault)) from fault
    note = PaymentNote(
        id=generate_short_id("note_", app.randbytes),
        payment_id=payment.id,
        key_id=_get_author(caller),
        text=clean,
        created_at_us=app.clock.now_us(),
    )
    work = _add(note)
    change = _describe(AuditAction.PAYMENT_NOTE_ADDED, payment)
    status = None if caller is None else caller.credential_status
    await app.store.write(
        credential_checks.run_if_active(status, audited(app, work, lambda _: change))
    )
    return note


async def list_notes(app: _Context, caller: Caller | None, payment_ref: str) -> list[PaymentNote]:
    """Return the notes of a payment, the oldest first; payment_not_found."""
    payment = await _find_payment(app, caller, payment_ref)
    return await app.store.read(notes.list_notes(payment.id))


async def set_deleted(
    app: _Context, caller: Caller | None, payment_ref: str, note_id: str, *, deleted: bool
) -> PaymentNote:
    """Delete a note of the caller's side, or restore it; a second time changes nothing.

    Errors as for an unknown note if the other side wrote it, or it can no longer be restored.
    """
    payment = await _find_payment(app, caller, payment_ref)
    action = AuditAction.PAYMENT_NOTE_DELETED if deleted else AuditAction.PAYMENT_NOTE_RESTORED
    change = _describe(action, payment)
    deleted_at_us = app.clock.now_us() if deleted else None
    work = _set_deleted(payment.id, note_id, deleted_at_us, _make_side_check(caller))
    status = None if caller is None else caller.credential_status
    note, _ = await app.store.write(
        credential_checks.run_if_active(
            status, audited(app, work, lambda result: change if result[1] else None)
        )
    )
    return note


async def _find_payment(app: _Context, caller: Caller | None, payment_ref: str) -> Payment:
    if caller is not None:
        return await get_payment(app, caller, payment_ref, is_of_partner)
    # of any partner and mode
    return await get_payment(app, Caller(live=False), payment_ref, lambda _, __: True)


def _get_author(caller: Caller | None) -> str | None:
    return None if caller is None else caller.credential


def _make_side_check(caller: Caller | None) -> Callable[[PaymentNote], bool]:
    """Return the side of the caller, which owns its notes: a partner has one for all keys."""
    is_operator = caller is None
    return lambda note: (note.key_id is None) is is_operator


def _describe(action: AuditAction, payment: Payment) -> AuditChange:
    # not the text: the log outlives it
    return AuditChange(action, AuditObject.PAYMENT, payment.id, payment.partner_id, payment.live)


@operation
def _add(note: PaymentNote) -> Op[None]:
    if not (yield from notes.add(note, NOTES_MAX)):
        raise ApiError(
            ErrorCode.INVALID_STATE,
            f"A payment can have at most {NOTES_MAX} notes. Deleted ones count for a day",
            details={"reason": "too_many_notes"},
        )


@operation
def _set_deleted(
    payment_id: str,
    note_id: str,
    deleted_at_us: int | None,
    is_own: Callable[[PaymentNote], bool],
) -> Op[tuple[PaymentNote, bool]]:
    note = yield from notes.lock(payment_id, note_id)
    if note is None or not is_own(note):
        raise ApiError(
            ErrorCode.INVALID_PARAMS,
            "Note not found: it does not exist, or another side wrote it",
            details={"reason": "note_not_found"},
            http=404,
            grpc=GrpcStatus.NOT_FOUND,
        )
    if (note.deleted_at_us is None) is (deleted_at_us is None):
        return note, False
    return (yield from notes.set_deleted(note_id, deleted_at_us)), True
