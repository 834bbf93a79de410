"""The table of blocked payers' money."""

from sqlalchemy import Index

from florin_server.db.tables.fields import (
    TableRow,
    amount_column,
    check_enum,
    enum_column,
    integer_column,
    partial_index,
    text_column,
)
from florin_server.domain.payouts.held_money import HeldMoneyState

# a query uses a partial index only if it repeats the predicate exactly
UNRESOLVED_PREDICATE = "state IN ('held', 'kept', 'undone')"


class HeldMoneyRow(TableRow, table=True):
    """Money from a payer that was blocked by then; each settlement event once."""

    __tablename__ = "held_money"
    __table_args__ = (
        check_enum("state", HeldMoneyState),
        Index("uq_held_money_payment_id_event", "payment_id", "event", unique=True),
        Index("ix_held_money_chain_id_tx_hash", "chain_id", "tx_hash"),
        partial_index("ix_held_money_open", UNRESOLVED_PREDICATE, "chain_id", "state"),
    )

    id: str = text_column(key=True)
    payment_id: str = text_column()
    chain_id: str = text_column()
    asset: str = text_column()
    payer: str = text_column()
    value: int = amount_column()
    held: int = amount_column()
    fee: int = amount_column()
    settled_value: int | None = amount_column()
    tx_hash: str = text_column()
    event: str = text_column()
    late: bool
    why: str = text_column()
    since_us: int = integer_column()
    state: HeldMoneyState = enum_column(HeldMoneyState)
    note: str | None = text_column()
    decided_at_us: int | None = integer_column()
    payout_id: str | None = text_column()
    even_if_blocked: bool
    address: str | None = text_column()
