"""Messages of the audit log and of notes, and what the requests for them select."""

from __future__ import annotations

from florin.v1 import audit_pb2, note_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from florin_server.api.server.timestamps import to_timestamp
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.audit import ActorKind, AuditEntry
from florin_server.domain.payments.note import PaymentNote
from florin_server.operations.service.audit_log import AuditListPage
from florin_server.operations.store.audit_log import AuditQuery


def parse_audit_query(
    request: audit_pb2.ListAuditEntriesRequest, caller: Caller | None
) -> AuditQuery:
    """Return what a request selects; a caller of None is the operator."""
    return AuditQuery(
        partner_id=None if caller is None else caller.required_partner_id,
        live=caller is not None and caller.live,
        action=request.action,
        actor=request.actor,
        object_id=request.object_id,
        from_us=_to_us(request.start_ts) if request.HasField("start_ts") else 0,
        until_us=_to_us(request.end_ts) if request.HasField("end_ts") else None,
    )


def to_audit_response(
    page: AuditListPage, *, is_operator: bool
) -> audit_pb2.ListAuditEntriesResponse:
    """Return a page; merchants do not see where the operator works."""
    return audit_pb2.ListAuditEntriesResponse(
        entries=[_to_entry(entry, is_operator=is_operator) for entry in page.entries],
        next_cursor=page.next_cursor,
    )


def to_note(note: PaymentNote) -> note_pb2.PaymentNote:
    """Return a note as a message."""
    author = note_pb2.NOTE_AUTHOR_OPERATOR if note.key_id is None else note_pb2.NOTE_AUTHOR_MERCHANT
    return note_pb2.PaymentNote(
        id=note.id,
        payment_id=note.payment_id,
        text=note.text,
        author=author,
        key_id=note.key_id or "",
        created_at=to_timestamp(note.created_at_us),
        deleted_at=to_timestamp(note.deleted_at_us) if note.deleted_at_us else None,
    )


def _to_entry(entry: AuditEntry, *, is_operator: bool) -> audit_pb2.AuditEntry:
    hides_peer = not is_operator and entry.actor_kind != ActorKind.KEY
    return audit_pb2.AuditEntry(
        id=entry.id,
        at=to_timestamp(entry.at_us),
        actor=entry.actor_kind,
        key_id=entry.actor_id,
        channel=entry.channel,
        peer="" if hides_peer else entry.peer,
        request_id=entry.request_id,
        action=entry.action,
        object=entry.object_kind,
        object_id=entry.object_id,
        partner_id=entry.partner_id or "",
        live=entry.live,
        changes=[
            audit_pb2.AuditChange(name=change.name, before=change.before, after=change.after)
            for change in entry.changes
        ],
        count=entry.count,
    )


def _to_us(timestamp: Timestamp) -> int:
    return timestamp.seconds * 1_000_000 + timestamp.nanos // 1000
