"""Tables of outgoing money.

Conventions as in `tables`.
"""

from sqlalchemy import Index

from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    amount_column,
    check_enum,
    enum_column,
    integer_column,
    partial_index,
    text_column,
)
from florin_server.domain.payments.payment import RefundStatus
from florin_server.domain.payouts.payout import PayoutKind, PayoutStatus

# predicates of partial indexes; a query uses the index only if it repeats the predicate exactly
OWED_PREDICATE = "status IN ('waiting', 'submitted')"
UNPAID_PREDICATE = "status IN ('pending', 'processing')"
SENT_PREDICATE = "tx_id IS NOT NULL"


class PayoutRow(TableRow, table=True):
    """Money that leaves a treasury."""

    __tablename__ = "payout"
    __table_args__ = (
        check_enum("kind", PayoutKind),
        check_enum("status", PayoutStatus),
        partial_index("ix_payout_owed", OWED_PREDICATE, "chain_id", "status", "created_at_us"),
        Index("ix_payout_merchant_id", "merchant_id", "created_at_us"),
        WITHOUT_ROWID,
    )

    id: str = text_column(key=True)
    kind: PayoutKind = enum_column(PayoutKind)
    merchant_id: str = text_column()
    payment_id: str | None = text_column()
    live: bool
    chain_id: str = text_column()
    asset: str = text_column()
    value: int = amount_column()
    account: str = text_column()
    created_at_us: int = integer_column()
    status: PayoutStatus = enum_column(PayoutStatus)
    retry_at_us: int = integer_column()
    problem: str | None = text_column()
    tx_id: str | None = text_column()
    completed_at_us: int | None = integer_column()
    lapses_at: int | None = integer_column()
    backed: bool
    held_id: str | None = text_column()
    owed_account: str | None = text_column()


class RefundRow(TableRow, table=True):
    """A refund, numbered within its payment."""

    __tablename__ = "refund"
    __table_args__ = (
        check_enum("status", RefundStatus),
        Index("uq_refund_payment_id_ordinal", "payment_id", "ordinal", unique=True),
        partial_index("ix_refund_open", UNPAID_PREDICATE, "created_at_us"),
        partial_index("ix_refund_tx_id", SENT_PREDICATE, "tx_id"),
    )

    id: str = text_column(key=True)
    payment_id: str = text_column()
    unit: str = text_column()
    value: int = amount_column()
    account: str | None = text_column()
    status: RefundStatus = enum_column(RefundStatus)
    tx_id: str | None = text_column()
    created_at_us: int = integer_column()
    completed_at_us: int | None = integer_column()
    version: int = integer_column(default="1")
    ordinal: int = integer_column(default="1")
    reason: str | None = text_column()
    payment_value: int = amount_column(default="0")


class RefundEventRow(TableRow, table=True):
    """A change of a refund's status, written with it and never changed; counted per payment."""

    __tablename__ = "refund_event"
    __table_args__ = (
        check_enum("status", RefundStatus),
        # of a partner, by time
        Index("ix_refund_event_partner", "partner_id", "live", "at_us", "payment_id"),
        WITHOUT_ROWID,
    )

    payment_id: str = text_column(key=True)
    version: int = integer_column(key=True)
    status: RefundStatus = enum_column(RefundStatus)
    at_us: int = integer_column()
    tx_id: str | None = text_column()
    partner_id: str = text_column()
    live: bool
    refund_id: str = text_column(default="")


class PaymentSettledRow(TableRow, table=True):
    """The arrival of a payment's money at the merchant; written once, and never changed.

    `after_refunds` counts the earlier refund events.
    """

    __tablename__ = "payment_settled"
    __table_args__ = (
        # of a partner, by time
        Index("ix_payment_settled_partner", "partner_id", "live", "at_us", "payment_id"),
        # a payout of a balance settles any number of payments
        partial_index(
            "ix_payment_settled_tx_id",
            SENT_PREDICATE,
            *("partner_id", "live", "tx_id", "payment_id"),
        ),
        WITHOUT_ROWID,
    )

    payment_id: str = text_column(key=True)
    at_us: int = integer_column()
    tx_id: str | None = text_column()
    unit: str = text_column()
    value: int = amount_column()
    after_refunds: int = integer_column()
    partner_id: str = text_column()
    live: bool


class CoveringPayoutRow(TableRow, table=True):
    """A final payout of a merchant's balance whose payments must still be marked as settled."""

    __tablename__ = "covering_payout"
    __table_args__ = (WITHOUT_ROWID,)

    at_us: int = integer_column(key=True)
    payout_id: str = text_column(key=True)
    merchant_id: str = text_column()
    asset: str = text_column()
    value: int = amount_column()
    tx_id: str | None = text_column()
