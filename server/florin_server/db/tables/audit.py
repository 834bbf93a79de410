"""The audit log. Conventions as in `tables`."""

from sqlalchemy import Index
from sqlmodel import Field

from florin_server.db.engine.columns import JsonRows
from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    integer_column,
    text_column,
)
from florin_server.domain.audit import FieldChange


class AuditEntryRow(TableRow, table=True):
    """One recorded action; rows are added and later deleted, but never changed.

    Kinds and actions are plain texts, so that an older release can read those of a newer one.
    """

    __tablename__ = "audit_entry"
    __table_args__ = (
        Index("ix_audit_entry_partner", "partner_id", "live", "at_us", "id"),
        Index("ix_audit_entry_object", "object_id", "at_us", "id"),
        WITHOUT_ROWID,
    )

    at_us: int = integer_column(key=True)
    id: str = text_column(key=True)
    actor_kind: str = text_column()
    actor_id: str = text_column()
    channel: str = text_column()
    peer: str = text_column()
    request_id: str = text_column()
    action: str = text_column()
    object_kind: str = text_column()
    object_id: str = text_column()
    partner_id: str | None = text_column()
    live: bool | None
    changes: tuple[FieldChange, ...] | None = Field(sa_type=JsonRows(FieldChange))
    count: int = integer_column()
