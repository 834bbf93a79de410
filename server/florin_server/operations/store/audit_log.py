"""The audit log: entries are added, read page by page, and deleted once they are old.

A page reads a limited number of entries, whatever its filters let through: the next page continues
behind the last entry that was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, and_, delete, or_, select

from florin_server.db.engine.query import Command, Op, Statement, columns, insert, operation, param
from florin_server.db.tables.tables import audit_entry_table
from florin_server.domain.audit import AuditEntry

# entries in one read, and reads for one page
_BATCH_SIZE: Final = 500
_BATCHES_MAX: Final = 10
# later than any entry
_END: Final = (2**63 - 1, "")

_entry = audit_entry_table.c
_COLUMNS = columns(audit_entry_table, AuditEntry)
_APPEND = Command(insert(audit_entry_table))
_BEFORE = or_(
    _entry.at_us < param("until_us"),
    and_(_entry.at_us == param("until_us"), _entry.id < param("until_id")),
)


def _newest(*conditions: ColumnElement[bool]) -> Statement[AuditEntry]:
    return Statement(
        select(*_COLUMNS)
        .where(
            *conditions,
            _entry.at_us <= param("until_us"),
            _entry.at_us >= param("from_us"),
            _BEFORE,
        )
        .order_by(_entry.at_us.desc(), _entry.id.desc())
        .limit(param("limit")),
        AuditEntry,
    )


class AuditPosition(NamedTuple):
    """The place of an entry in the log."""

    at_us: int
    id: str


_NEWEST = _newest()
_NEWEST_OF_PARTNER = _newest(_entry.partner_id == param("partner"), _entry.live == param("is_live"))
_NEWEST_ON_OBJECT = _newest(_entry.object_id == param("object"))
_OLD = Statement(
    select(_entry.at_us, _entry.id)
    .where(_entry.at_us < param("before_us"))
    .order_by(_entry.at_us, _entry.id)
    .limit(param("limit")),
    AuditPosition,
)
_DELETE = Command(
    delete(audit_entry_table).where(_entry.at_us == param("key_us"), _entry.id == param("key_id"))
)


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """The entries to list; empty values let all through.

    `partner_id` and `live` limit a merchant to its own entries; the operator has neither. `action`
    is an action, or the part before its dot. `actor` is a kind of actor or the id of a key.
    """

    partner_id: str | None = None
    live: bool = False
    action: str = ""
    actor: str = ""
    object_id: str = ""
    from_us: int = 0
    until_us: int | None = None

    def matches(self, entry: AuditEntry) -> bool:
        """Return whether the filters let an entry through."""
        return (
            (self.partner_id is None or (entry.partner_id, entry.live) == self.owner)
            and (not self.object_id or entry.object_id == self.object_id)
            and (not self.action or self.action in {entry.action, entry.action.partition(".")[0]})
            and (not self.actor or self.actor in {entry.actor_kind, entry.actor_id})
        )

    @property
    def owner(self) -> tuple[str | None, bool]:
        """Return the partner and the mode whose entries are listed."""
        return self.partner_id, self.live


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Entries, the newest first, and where the next page starts; None at the end of the log.

    A page can be short, or empty, although another follows.
    """

    entries: Sequence[AuditEntry]
    next_position: AuditPosition | None


@operation
def append(entry: AuditEntry) -> Op[None]:
    """Add an entry."""
    yield _APPEND(entry)


@operation
def list_page(query: AuditQuery, position: AuditPosition | None, limit: int) -> Op[AuditPage]:
    """Return the newest entries, or those before a position."""
    place = position or AuditPosition(*(_END if query.until_us is None else (query.until_us, "")))
    entries: list[AuditEntry] = []
    for _ in range(_BATCHES_MAX):
        batch = yield from _read(query, place)
        for entry in batch:
            place = AuditPosition(entry.at_us, entry.id)
            if query.matches(entry):
                entries.append(entry)
                if len(entries) == limit:
                    more = len(batch) == _BATCH_SIZE or entry is not batch[-1]
                    return AuditPage(entries, place if more else None)
        if len(batch) < _BATCH_SIZE:
            return AuditPage(entries, None)
    return AuditPage(entries, place)


def _read(query: AuditQuery, place: AuditPosition) -> Op[list[AuditEntry]]:
    """Read one batch by the index that leaves the fewest entries."""
    bounds = {
        "until_us": place.at_us,
        "until_id": place.id,
        "from_us": query.from_us,
        "limit": _BATCH_SIZE,
    }
    if query.object_id:
        return (yield from _NEWEST_ON_OBJECT.all(object=query.object_id, **bounds))
    if query.partner_id is not None:
        return (
            yield from _NEWEST_OF_PARTNER.all(
                partner=query.partner_id, is_live=query.live, **bounds
            )
        )
    return (yield from _NEWEST.all(**bounds))


@operation
def forget(before_us: int, limit: int) -> Op[int]:
    """Delete entries that are older than a time, the oldest first; return how many."""
    old = yield from _OLD.all(before_us=before_us, limit=limit)
    if old:
        yield _DELETE.bind_many([{"key_us": key.at_us, "key_id": key.id} for key in old])
    return len(old)
