"""Tables of transfers that Florin sends for others (x402), and of their budgets.

Conventions as in `tables`.
"""

from typing import Any

from sqlalchemy import Index

from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    amount_column,
    check_enum,
    enum_column,
    integer_column,
    json_column,
    partial_index,
    text_column,
)
from florin_server.domain.x402.settlement import FacilitationState

# a query uses a partial index only if it repeats the predicate exactly
OPEN_FACILITATION_PREDICATE = "state IN ('waiting', 'sent')"
FAILED_FACILITATION_PREDICATE = "payment_id IS NOT NULL AND state = 'failed'"
BOUND_FACILITATION_PREDICATE = "payment_id IS NOT NULL AND state <> 'failed'"


class FacilitationRow(TableRow, table=True):
    """A transfer that its payer signed, by the identity of the signature on its chain.

    It is for a server that has an API key, or for a payment of Florin: not both, and a payment has
    at most one that did not fail. `tx_hash` is the first variant of our transaction, and at the
    end the one that moved the money.
    """

    __tablename__ = "facilitation"
    __table_args__ = (
        check_enum("state", FacilitationState),
        partial_index("ix_facilitation_open", OPEN_FACILITATION_PREDICATE, "chain_id"),
        partial_index(
            "uq_facilitation_payment", BOUND_FACILITATION_PREDICATE, "payment_id", unique=True
        ),
        partial_index("ix_facilitation_failed", FAILED_FACILITATION_PREDICATE, "payment_id"),
        Index("ix_facilitation_chain_id_tx_hash", "chain_id", "tx_hash"),
    )

    key: str = text_column(key=True)
    chain_id: str = text_column()
    api_key: str = text_column()
    payment_id: str | None = text_column()
    asset: str = text_column()
    payer: str = text_column()
    pay_to: str = text_column()
    value: int = amount_column()
    content: dict[str, Any] = json_column()
    gas: int = integer_column()
    expires_at: int = integer_column()
    head: int = integer_column()
    state: FacilitationState = enum_column(FacilitationState)
    tx_hash: str | None = text_column()
    reason: str | None = text_column()
    created_at_us: int = integer_column()
    ended_at_us: int | None = integer_column()


class FacilitatedGasRow(TableRow, table=True):
    """The gas of an owner's transfers in an hour of the clock: reserved, and used in the end.

    The owner is an API key, a payer, or empty for the whole chain.
    """

    __tablename__ = "facilitated_gas"
    __table_args__ = (WITHOUT_ROWID,)

    chain_id: str = text_column(key=True)
    hour_us: int = integer_column(key=True)
    owner: str = text_column(key=True)
    gas: int = integer_column()
