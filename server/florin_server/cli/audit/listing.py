"""`florin audit list`: the audit log, while the service runs or not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from florin.v1 import audit_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from florin_server.cli.console import print_hint, print_json, print_table
from florin_server.cli.operation import run_with_operator

_COLUMNS = ("Time", "Who", "By", "Address", "Action", "Object", "Request", "Values")
_PAGE_MAX = 200
# pages can be short: one command reads this many
_PAGES_MAX = 100


@dataclass(frozen=True, slots=True)
class AuditFilters:
    """The filters of the list; times are UTC."""

    action: str = ""
    actor: str = ""
    object_id: str = ""
    since: datetime | None = None
    until: datetime | None = None


def list_entries(overrides: dict[str, Any], filters: AuditFilters, limit: int) -> None:
    """Print the newest entries, up to the limit."""
    request = audit_pb2.ListAuditEntriesRequest(
        action=filters.action,
        actor=filters.actor,
        object_id=filters.object_id,
        start_ts=_to_timestamp(filters.since),
        end_ts=_to_timestamp(filters.until),
    )

    async def read_pages(service: Any) -> tuple[list[audit_pb2.AuditEntry], bool]:
        entries: list[audit_pb2.AuditEntry] = []
        for _ in range(_PAGES_MAX):
            request.limit = min(limit - len(entries), _PAGE_MAX)
            page = await service.call("ListAuditEntries", request)
            entries += page.entries
            if not page.HasField("next_cursor"):
                return entries, False
            if len(entries) >= limit:
                break
            request.cursor = page.next_cursor
        return entries, True

    entries, has_more = run_with_operator(overrides, read_pages)
    if not print_json({"entries": entries, "more": has_more}):
        print_table(_COLUMNS, map(_to_row, entries))
        if has_more:
            print_hint("There can be more: raise --limit, or list a shorter time.")


def _to_row(entry: audit_pb2.AuditEntry) -> tuple[str, ...]:
    count = f" x{entry.count}" if entry.count > 1 else ""
    return (
        f"{entry.at.ToDatetime():%Y-%m-%dT%H:%M:%SZ}",
        entry.key_id or entry.actor,
        entry.channel,
        entry.peer or "-",
        f"{entry.action}{count}",
        entry.object_id or "-",
        entry.request_id or "-",
        "; ".join(f"{value.name}: {value.before} > {value.after}" for value in entry.changes),
    )


def _to_timestamp(time: datetime | None) -> Timestamp | None:
    if time is None:
        return None
    timestamp = Timestamp()
    timestamp.FromDatetime(time.replace(tzinfo=UTC))
    return timestamp
