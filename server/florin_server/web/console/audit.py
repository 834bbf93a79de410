"""The audit log, in both consoles: a table with filters, and the same as a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from florin.v1 import audit_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.domain.text import format_csv_cell
from florin_server.web.console.audit_words import describe_action, list_actions, list_objects
from florin_server.web.console.fields import FormValues, group_fields, parse_timestamp
from florin_server.web.console.list_controls import NAMED_CHIPS
from florin_server.web.console.site import ConsoleRequest
from florin_server.web.console.view import Formatter
from florin_server.web.handlers import NOSNIFF
from florin_server.web.language import Translations

PATH: Final = "/console/audit"
_FILTERS: Final = ("action", "actor", "object", "from", "to")
_PAGE_ROWS: Final = 50
_ROWS_MAX: Final = 200
# of a file, and the calls for them: pages can be short
FILE_ROWS_MAX: Final = 5_000
_CALLS_MAX: Final = 100
# names are stable and in docs/console.md; new columns come at the end
_COLUMNS: Final = (
    *("id", "time", "actor", "key_id", "channel", "address", "action", "object", "object_id"),
    *("partner_id", "live", "changes", "count", "request_id"),
)


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """Show a page of the log."""
    query = group_fields(console_request.request.query)
    response = await _call(console_request, _build_request(query, _PAGE_ROWS))
    return console_request.render_page(
        "audit",
        console_request.texts.plain("nav.audit"),
        entries=[
            (
                entry,
                describe_action(console_request.texts, entry.action),
                _find_object_path(console_request, entry),
            )
            for entry in response.entries
        ],
        next_query=_build_query(query, cursor=response.next_cursor)
        if response.HasField("next_cursor")
        else "",
        query=query,
        chips=[
            (
                _describe_filter(console_request.texts, name, query.text(name)),
                _build_query(query, **{name: ""}),
            )
            for name in _FILTERS
            if query.text(name)
        ],
        file_query=_build_query(query),
        actions=list_actions(console_request.texts),
        objects=list_objects(console_request.texts),
        path=PATH,
    )


async def download_csv(console_request: ConsoleRequest) -> PlainResponse:
    """Return the log as a CSV file."""
    request = _build_request(group_fields(console_request.request.query), _ROWS_MAX)
    request.ClearField("cursor")
    entries: list[audit_pb2.AuditEntry] = []
    for _ in range(_CALLS_MAX):
        response = await _call(console_request, request)
        entries += response.entries
        if not response.HasField("next_cursor") or len(entries) >= FILE_ROWS_MAX:
            break
        request.cursor = response.next_cursor
    return build_csv(console_request.formatter, entries[:FILE_ROWS_MAX])


def build_csv(formatter: Formatter, entries: list[audit_pb2.AuditEntry]) -> PlainResponse:
    """Return entries as a CSV file."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(_COLUMNS)
    for entry in entries:
        writer.writerow([format_csv_cell(text) for text in _format_row(formatter, entry)])
    headers = ((b"content-disposition", b'attachment; filename="audit.csv"'), NOSNIFF)
    return PlainResponse(200, buffer.getvalue().encode(), "text/csv; charset=utf-8", headers)


def _format_row(formatter: Formatter, entry: audit_pb2.AuditEntry) -> list[str]:
    return [
        entry.id,
        formatter.iso(entry.at),
        entry.actor,
        entry.key_id,
        entry.channel,
        entry.peer,
        entry.action,
        entry.object,
        entry.object_id,
        entry.partner_id,
        str(entry.live).lower() if entry.HasField("live") else "",
        "; ".join(f"{change.name}: {change.before} > {change.after}" for change in entry.changes),
        str(entry.count),
        entry.request_id,
    ]


async def _call(
    console_request: ConsoleRequest, request: audit_pb2.ListAuditEntriesRequest
) -> audit_pb2.ListAuditEntriesResponse:
    is_operator = console_request.console.config.name == "operator"
    service = "OperatorService" if is_operator else "AdminService"
    response: audit_pb2.ListAuditEntriesResponse = await console_request.call(
        f"{service}.ListAuditEntries", request
    )
    return response


def _describe_filter(texts: Translations, name: str, value: str) -> str:
    """Return a filter in words: lists of payments have some of them too."""
    key = f"chip.{name}" if name in NAMED_CHIPS else f"audit.chip.{name}"
    return texts.plain(key, value=value.replace("T", " ") if name in {"from", "to"} else value)


def _build_request(query: FormValues, limit: int) -> audit_pb2.ListAuditEntriesRequest:
    return audit_pb2.ListAuditEntriesRequest(
        action=query.text("action"),
        actor=query.text("actor"),
        object_id=query.text("object"),
        start_ts=parse_timestamp(query.text("from")),
        end_ts=parse_timestamp(query.text("to")),
        limit=limit,
        cursor=query.text("cursor") or None,
    )


def _build_query(query: FormValues, **changes: str) -> str:
    """Return the filters of an address, with some changed; empty ones are left out."""
    values = {**{name: query.text(name) for name in _FILTERS}, **changes}
    return urlencode({name: value for name, value in values.items() if value})


def _find_object_path(console_request: ConsoleRequest, entry: audit_pb2.AuditEntry) -> str:
    """Return the page of an entry's object; empty without one."""
    is_operator = console_request.console.config.name == "operator"
    return _PATHS[is_operator].get(entry.object, "").format(quote(entry.object_id, ""))


# by whether the reader is the operator
_PATHS: Final[Mapping[bool, Mapping[str, str]]] = {
    True: {
        "payment": "/console/payments/{}",
        "webhook": "/console/webhooks/{}",
    },
    False: {
        # its page needs the merchant too
        "payment": "/console/search?q={}",
        "merchant": "/console/merchants/{}",
        "webhook": "/console/webhooks/{}",
    },
}
