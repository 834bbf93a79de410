"""The table of buyers' claims for held money."""

from sqlalchemy import Index

from florin_server.db.tables.fields import (
    TableRow,
    amount_column,
    check_enum,
    enum_column,
    integer_column,
    text_column,
)
from florin_server.domain.payouts.deposit_claims import ClaimDecider, DepositClaimState


class DepositClaimRow(TableRow, table=True):
    """A claim, as in `DepositClaim`; it stays when a reorganization removes its held money."""

    __tablename__ = "deposit_claim"
    __table_args__ = (
        check_enum("state", DepositClaimState),
        check_enum("decided_by", ClaimDecider),
        Index("uq_deposit_claim_held_id_account", "held_id", "account", unique=True),
        Index("ix_deposit_claim_payment_id", "payment_id"),
    )

    id: str = text_column(key=True)
    held_id: str = text_column()
    payment_id: str = text_column()
    asset: str = text_column()
    value: int = amount_column()
    account: str = text_column()
    message: str | None = text_column()
    created_at_us: int = integer_column()
    state: DepositClaimState = enum_column(DepositClaimState)
    decided_at_us: int | None = integer_column()
    decided_by: ClaimDecider | None = enum_column(ClaimDecider)
