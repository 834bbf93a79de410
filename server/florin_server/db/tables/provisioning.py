"""Tables of prepared objects: accounts that hold tokens, and durable nonces.

Conventions as in `tables`.
"""

from sqlalchemy import Index

from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    integer_column,
    text_column,
)


class AccountToOpenRow(TableRow, table=True):
    """A place (asset and account) to open in advance; our own place has no merchant."""

    __tablename__ = "account_to_open"
    __table_args__ = (Index("ix_account_to_open_chain_id", "chain_id", "at_us"), WITHOUT_ROWID)

    asset: str = text_column(key=True)
    account: str = text_column(key=True)
    chain_id: str = text_column()
    merchant_id: str | None = text_column()
    at_us: int = integer_column()


class OpenedAccountRow(TableRow, table=True):
    """A place that was opened once and is not opened again, on a day (since 1970, UTC).

    `opened_by` is the payment, the payout or the hash of the transaction that opens it.
    """

    __tablename__ = "opened_account"
    __table_args__ = (
        Index("ix_opened_account_chain_id", "chain_id", "day", "merchant_id"),
        Index("ix_opened_account_opened_by", "opened_by"),
        WITHOUT_ROWID,
    )

    asset: str = text_column(key=True)
    account: str = text_column(key=True)
    chain_id: str = text_column()
    merchant_id: str | None = text_column()
    day: int = integer_column()
    opened_by: str | None = text_column()
    at_us: int = integer_column()


class NonceAccountRow(TableRow, table=True):
    """A durable nonce account on Solana, and the option whose transaction uses it.

    `value` is its value in the final block `slot`; empty before the account was seen.
    """

    __tablename__ = "nonce_account"
    __table_args__ = (WITHOUT_ROWID,)

    chain_id: str = text_column(key=True)
    address: str = text_column(key=True)
    value: str = text_column()
    slot: int = integer_column()
    payment_id: str | None = text_column()
    option_id: str | None = text_column()
    held_until_us: int = integer_column()
