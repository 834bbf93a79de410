"""The table of quarantined items; conventions as in `tables`."""

from sqlalchemy import Index

from florin_server.db.tables.fields import (
    TableRow,
    check_enum,
    enum_column,
    integer_column,
    partial_index,
    text_column,
)
from florin_server.domain.quarantine import QuarantinedItemKind, QuarantinedItemState

# a query uses a partial index only if it repeats the predicate exactly
EXCLUDED_PREDICATE = "state IN ('set_aside', 'resolved')"


class QuarantinedItemRow(TableRow, table=True):
    """An item whose step failed unexpectedly: one row for each subject."""

    __tablename__ = "quarantined_item"
    __table_args__ = (
        check_enum("state", QuarantinedItemState),
        Index("uq_quarantined_item_subject", "kind", "chain_id", "subject", unique=True),
        partial_index("ix_quarantined_item_left_out", EXCLUDED_PREDICATE, "kind", "subject"),
        Index("ix_quarantined_item_state_last_at_us", "state", "last_at_us"),
    )

    id: str = text_column(key=True)
    kind: QuarantinedItemKind = enum_column(QuarantinedItemKind)
    chain_id: str = text_column()
    subject: str = text_column()
    step: str = text_column()
    reason: str = text_column()
    state: QuarantinedItemState = enum_column(QuarantinedItemState)
    attempts: int = integer_column()
    first_at_us: int = integer_column()
    last_at_us: int = integer_column()
    note: str | None = text_column()
