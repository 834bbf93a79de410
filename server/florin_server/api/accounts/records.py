"""A partner's calls about its audit log, and about notes on its payments."""

from __future__ import annotations

from typing import Any

from florin.v1 import audit_pb2, note_pb2

from florin_server.api.context import ApiContext
from florin_server.api.records import parse_audit_query, to_audit_response, to_note
from florin_server.api.server.call import get_caller
from florin_server.money.payments.service import notes
from florin_server.operations.service.audit_log import list_entries


class PartnerRecordCalls:
    """The audit log of a partner in one mode, and notes on its payments."""

    _app: ApiContext

    async def ListAuditEntries(
        self, request: audit_pb2.ListAuditEntriesRequest, context: Any
    ) -> audit_pb2.ListAuditEntriesResponse:
        """List the partner's audit log."""
        page = await list_entries(
            self._app,
            parse_audit_query(request, get_caller()),
            request.cursor if request.HasField("cursor") else None,
            request.limit if request.HasField("limit") else None,
        )
        return to_audit_response(page, is_operator=False)

    async def CreatePaymentNote(
        self, request: note_pb2.CreatePaymentNoteRequest, context: Any
    ) -> note_pb2.PaymentNote:
        """Add a note to a payment."""
        note = await notes.add(self._app, get_caller(), request.payment_id, request.text)
        return to_note(note)

    async def ListPaymentNotes(
        self, request: note_pb2.ListPaymentNotesRequest, context: Any
    ) -> note_pb2.ListPaymentNotesResponse:
        """List the notes of a payment."""
        found_notes = await notes.list_notes(self._app, get_caller(), request.payment_id)
        return note_pb2.ListPaymentNotesResponse(notes=map(to_note, found_notes))

    async def UpdatePaymentNote(
        self, request: note_pb2.UpdatePaymentNoteRequest, context: Any
    ) -> note_pb2.PaymentNote:
        """Delete or restore a note of the partner."""
        note = await notes.set_deleted(
            self._app, get_caller(), request.payment_id, request.id, deleted=request.deleted
        )
        return to_note(note)
