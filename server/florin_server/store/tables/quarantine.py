"""The table of items that were set aside; conventions as in `tables`."""

from sqlalchemy import Index

from florin_server.domain.quarantine import ItemKind, ItemState
from florin_server.store.tables.fields import (
    Base,
    number,
    one_of,
    only,
    partial,
    text_,
)

# a query uses a partial index only if it repeats the very same words
LEFT_OUT = "state IN ('set_aside', 'resolved')"


class QuarantinedItemRow(Base, table=True):
    """An item whose step failed unexpectedly: one row for each subject."""

    __tablename__ = "quarantined_item"
    __table_args__ = (
        only("state", ItemState),
        Index("uq_quarantined_item_subject", "kind", "chain_id", "subject", unique=True),
        partial("ix_quarantined_item_left_out", LEFT_OUT, "kind", "subject"),
        Index("ix_quarantined_item_state_last_at_us", "state", "last_at_us"),
    )

    id: str = text_(key=True)
    kind: ItemKind = one_of(ItemKind)
    chain_id: str = text_()
    subject: str = text_()
    step: str = text_()
    reason: str = text_()
    state: ItemState = one_of(ItemState)
    attempts: int = number()
    first_at_us: int = number()
    last_at_us: int = number()
    note: str | None = text_()
