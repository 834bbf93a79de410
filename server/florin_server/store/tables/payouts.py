"""Tables about money that leaves.

Conventions as in `tables`.
"""

from sqlalchemy import Index

from florin_server.domain.payments.payment import RefundStatus
from florin_server.domain.payouts.payout import PayoutKind, PayoutStatus
from florin_server.store.tables.fields import (
    BY_KEY,
    Base,
    amount,
    number,
    one_of,
    only,
    partial,
    text_,
)

# predicates of partial indexes; a query uses the index only if it repeats the very same words
OWED = "status IN ('waiting', 'submitted')"
UNPAID = "status IN ('pending', 'processing')"


class PayoutRow(Base, table=True):
    """Money that leaves a treasury."""

    __tablename__ = "payout"
    __table_args__ = (
        only("kind", PayoutKind),
        only("status", PayoutStatus),
        partial("ix_payout_owed", OWED, "chain_id", "status", "created_at_us"),
        Index("ix_payout_merchant_id", "merchant_id", "created_at_us"),
        BY_KEY,
    )

    id: str = text_(key=True)
    kind: PayoutKind = one_of(PayoutKind)
    merchant_id: str = text_()
    payment_id: str | None = text_()
    live: bool
    chain_id: str = text_()
    asset: str = text_()
    value: int = amount()
    account: str = text_()
    created_at_us: int = number()
    status: PayoutStatus = one_of(PayoutStatus)
    retry_at_us: int = number()
    problem: str | None = text_()
    tx_id: str | None = text_()
    completed_at_us: int | None = number()
    lapses_at: int | None = number()
    backed: bool
    held_id: str | None = text_()


class RefundRow(Base, table=True):
    """Money that goes back, numbered within its payment."""

    __tablename__ = "refund"
    __table_args__ = (
        only("status", RefundStatus),
        Index("uq_refund_payment_id_ordinal", "payment_id", "ordinal", unique=True),
        partial("ix_refund_open", UNPAID, "created_at_us"),
    )

    id: str = text_(key=True)
    payment_id: str = text_()
    unit: str = text_()
    value: int = amount()
    account: str | None = text_()
    status: RefundStatus = one_of(RefundStatus)
    tx_id: str | None = text_()
    created_at_us: int = number()
    completed_at_us: int | None = number()
    version: int = number(default="1")
    ordinal: int = number(default="1")
    reason: str | None = text_()
    payment_value: int = amount(default="0")


class RefundEventRow(Base, table=True):
    """One change of a refund's status, written with it and never again; counted per payment."""

    __tablename__ = "refund_event"
    __table_args__ = (
        only("status", RefundStatus),
        # of a partner, by time
        Index("ix_refund_event_partner", "partner_id", "live", "at_us", "payment_id"),
        BY_KEY,
    )

    payment_id: str = text_(key=True)
    version: int = number(key=True)
    status: RefundStatus = one_of(RefundStatus)
    at_us: int = number()
    tx_id: str | None = text_()
    partner_id: str = text_()
    live: bool
    refund_id: str = text_(default="")


class PaymentSettledRow(Base, table=True):
    """The merchant received the money of a payment; written once, and never changed.

    `after_refunds` counts the events of refunds that came before it.
    """

    __tablename__ = "payment_settled"
    __table_args__ = (
        # of a partner, by time
        Index("ix_payment_settled_partner", "partner_id", "live", "at_us", "payment_id"),
        BY_KEY,
    )

    payment_id: str = text_(key=True)
    at_us: int = number()
    tx_id: str | None = text_()
    unit: str = text_()
    value: int = amount()
    after_refunds: int = number()
    partner_id: str = text_()
    live: bool


class CoveringPayoutRow(Base, table=True):
    """A final payout of a merchant's balance whose payments are still to be marked as settled."""

    __tablename__ = "covering_payout"
    __table_args__ = (BY_KEY,)

    at_us: int = number(key=True)
    payout_id: str = text_(key=True)
    merchant_id: str = text_()
    asset: str = text_()
    value: int = amount()
    tx_id: str | None = text_()
