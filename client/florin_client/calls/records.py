"""Calls of a partner's back end: its audit log, and notes on payments."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Unpack

from florin.v1.audit_pb2 import AuditEntry, ListAuditEntriesRequest, ListAuditEntriesResponse
from florin.v1.note_pb2 import (
    CreatePaymentNoteRequest,
    ListPaymentNotesRequest,
    ListPaymentNotesResponse,
    PaymentNote,
    UpdatePaymentNoteRequest,
)

from florin_client.calls.paging import PagedQuery
from florin_client.calls.rpc import CallOptions, RpcCall, RpcSpec
from florin_client.calls.values import to_timestamp

_SERVICE_NAME = "AdminService"
_LIST_ENTRIES = RpcSpec(
    _SERVICE_NAME, "ListAuditEntries", ListAuditEntriesRequest, ListAuditEntriesResponse
)
_CREATE_NOTE = RpcSpec(_SERVICE_NAME, "CreatePaymentNote", CreatePaymentNoteRequest, PaymentNote)
_LIST_NOTES = RpcSpec(
    _SERVICE_NAME, "ListPaymentNotes", ListPaymentNotesRequest, ListPaymentNotesResponse
)
_UPDATE_NOTE = RpcSpec(_SERVICE_NAME, "UpdatePaymentNote", UpdatePaymentNoteRequest, PaymentNote)


def list_audit_entries(
    *,
    action: str = "",
    actor: str = "",
    object_id: str = "",
    start: dt.datetime | None = None,
    end: dt.datetime | None = None,
    limit: int | None = None,
    **options: Unpack[CallOptions],
) -> PagedQuery[ListAuditEntriesResponse, AuditEntry]:
    """List the audit log of the partner in the mode of the key, newest first, page by page.

    `action` is an action or the part before its dot, `actor` a kind of actor or a key id, and
    `object_id` for example a payment or a merchant; entries are from `start` or later and before
    `end`. `limit` is the page size, 50 by default, 200 at most.
    """
    request = ListAuditEntriesRequest(
        action=action,
        actor=actor,
        object_id=object_id,
        start_ts=to_timestamp(start),
        end_ts=to_timestamp(end),
        limit=limit,
    )
    return PagedQuery(_LIST_ENTRIES, request, options, _get_entries, _find_cursor)


def create_payment_note(
    payment_id: str, text: str, **options: Unpack[CallOptions]
) -> RpcCall[PaymentNote]:
    """Add a note to a payment; buyers do not see it, and the operator does."""
    return _CREATE_NOTE(CreatePaymentNoteRequest(payment_id=payment_id, text=text), options)


def list_payment_notes(
    payment_id: str, **options: Unpack[CallOptions]
) -> RpcCall[ListPaymentNotesResponse]:
    """List the notes of a payment, oldest first."""
    return _LIST_NOTES(ListPaymentNotesRequest(payment_id=payment_id), options)


def update_payment_note(
    payment_id: str, note_id: str, *, deleted: bool, **options: Unpack[CallOptions]
) -> RpcCall[PaymentNote]:
    """Delete a note of the partner, or restore it within a day."""
    request = UpdatePaymentNoteRequest(payment_id=payment_id, id=note_id, deleted=deleted)
    return _UPDATE_NOTE(request, options)


def _get_entries(page: ListAuditEntriesResponse) -> Iterable[AuditEntry]:
    return page.entries


def _find_cursor(page: ListAuditEntriesResponse) -> str | None:
    return page.next_cursor if page.HasField("next_cursor") else None
