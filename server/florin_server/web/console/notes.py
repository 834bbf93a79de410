"""Notes on a payment, in both consoles: add, delete, and restore a deleted one."""

from __future__ import annotations

from florin.v1 import note_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.web.console.site import ConsoleRequest
from florin_server.web.console.undo import UndoOffer

ADD_PATH = "/notes"
DELETE_PATH = "/notes/delete"
RESTORE_PATH = "/notes/restore"


async def list_notes(
    console_request: ConsoleRequest, payment_id: str
) -> list[tuple[note_pb2.PaymentNote, bool]]:
    """Return the notes of a payment, the newest first, and whether each is of this side."""
    request = note_pb2.ListPaymentNotesRequest(payment_id=payment_id)
    response = await console_request.call(_name(console_request, "ListPaymentNotes"), request)
    own = (
        note_pb2.NOTE_AUTHOR_OPERATOR
        if _is_operator(console_request)
        else note_pb2.NOTE_AUTHOR_MERCHANT
    )
    return [(note, note.author == own) for note in reversed(response.notes)]


async def add(console_request: ConsoleRequest) -> PlainResponse:
    """Add a note."""
    request = note_pb2.CreatePaymentNoteRequest(
        payment_id=console_request.get_path_variable("payment_id"),
        text=console_request.form.text("text"),
    )
    await console_request.call(_name(console_request, "CreatePaymentNote"), request)
    return console_request.redirect_to(f"{_get_page_path(console_request)}#notes")


async def delete(console_request: ConsoleRequest) -> PlainResponse:
    """Delete a note; the page then offers to restore it."""
    note = await _set_deleted(console_request, deleted=True)
    page = _get_page_path(console_request)
    offer = UndoOffer("undo.note_deleted", f"{page}{RESTORE_PATH}", {"note": note.id})
    return console_request.redirect_with_undo(page, offer)


async def restore(console_request: ConsoleRequest) -> PlainResponse:
    """Restore a note that was deleted within a day."""
    await _set_deleted(console_request, deleted=False)
    return console_request.redirect_to(f"{_get_page_path(console_request)}#notes")


async def _set_deleted(console_request: ConsoleRequest, *, deleted: bool) -> note_pb2.PaymentNote:
    request = note_pb2.UpdatePaymentNoteRequest(
        payment_id=console_request.get_path_variable("payment_id"),
        id=console_request.form.text("note"),
        deleted=deleted,
    )
    note: note_pb2.PaymentNote = await console_request.call(
        _name(console_request, "UpdatePaymentNote"), request
    )
    return note


def _is_operator(console_request: ConsoleRequest) -> bool:
    return console_request.console.config.name == "operator"


def _name(console_request: ConsoleRequest, method: str) -> str:
    service = "OperatorService" if _is_operator(console_request) else "AdminService"
    return f"{service}.{method}"


def _get_page_path(console_request: ConsoleRequest) -> str:
    return console_request.request.path.rpartition(ADD_PATH)[0]
