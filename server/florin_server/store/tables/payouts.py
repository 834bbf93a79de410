"""Tables about money that leaves, and about what an installation keeps once."""

from sqlalchemy import Index

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

# a query uses a partial index only if it repeats the very same words
OWED = "status IN ('waiting', 'submitted')"


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


class NonceAccountRow(Base, table=True):
    """A durable nonce account on Solana, and the option whose transaction has it.

    `value` is what it held when the final block `slot` was the newest; empty before it was seen.
    """

    __tablename__ = "nonce_account"
    __table_args__ = (BY_KEY,)

    chain_id: str = text_(key=True)
    address: str = text_(key=True)
    value: str = text_()
    slot: int = number()
    payment_id: str | None = text_()
    option_id: str | None = text_()
    held_until_us: int = number()


class InstallationRow(Base, table=True):
    """Something that an installation keeps once."""

    __tablename__ = "installation"
    __table_args__ = (BY_KEY,)

    name: str = text_(key=True)
    value: str = text_()
