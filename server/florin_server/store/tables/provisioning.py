"""Tables about what is made in advance: accounts that hold tokens, and durable nonces.

Conventions as in `tables`.
"""

from sqlalchemy import Index

from florin_server.store.tables.fields import BY_KEY, Base, number, text_


class AccountToOpenRow(Base, table=True):
    """A place (asset and account) that is to be opened in advance; for us without a merchant."""

    __tablename__ = "account_to_open"
    __table_args__ = (Index("ix_account_to_open_chain_id", "chain_id", "at_us"), BY_KEY)

    asset: str = text_(key=True)
    account: str = text_(key=True)
    chain_id: str = text_()
    merchant_id: str | None = text_()
    at_us: int = number()


class OpenedAccountRow(Base, table=True):
    """A place that was opened once and is not opened again, on a day (since 1970, UTC).

    `opened_by` is the payment, the payout or the hash of the transaction that opens it.
    """

    __tablename__ = "opened_account"
    __table_args__ = (
        Index("ix_opened_account_chain_id", "chain_id", "day", "merchant_id"),
        Index("ix_opened_account_opened_by", "opened_by"),
        BY_KEY,
    )

    asset: str = text_(key=True)
    account: str = text_(key=True)
    chain_id: str = text_()
    merchant_id: str | None = text_()
    day: int = number()
    opened_by: str | None = text_()
    at_us: int = number()


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
