"""Tables about what may still become of transactions of ours, and about what they open."""

from sqlalchemy import Index

from florin_server.domain.settlement.chain_txs import SpentKind, Watcher
from florin_server.store.tables.fields import (
    BY_KEY,
    Base,
    amount,
    bytes_,
    number,
    one_of,
    only,
    text_,
)


class ChainTxBumpRow(Base, table=True):
    """The same transaction with the same nonce, signed again for a higher fee."""

    __tablename__ = "chain_tx_bump"
    __table_args__ = (BY_KEY,)

    tx_id: str = text_(key=True)
    n: int = number(key=True)
    raw: bytes = bytes_()
    hash: str = text_()
    created_at_us: int = number()


class WatchedRow(Base, table=True):
    """A final transaction that a deep reorganisation might still undo."""

    __tablename__ = "watched_tx"
    __table_args__ = (only("watcher", Watcher), BY_KEY)

    chain_id: str = text_(key=True)
    tx_hash: str = text_(key=True)
    watcher: Watcher = one_of(Watcher)
    block_number: int = number()
    block_hash: str = text_()


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


class FailedGasRow(Base, table=True):
    """Gas of a final transaction that budgets count, and its cost in the coin's minor units.

    Without a payment: that of several whose transaction was reverted as a whole.
    """

    __tablename__ = "failed_gas"
    __table_args__ = (only("kind", SpentKind), Index("ix_failed_gas_at_us", "at_us"), BY_KEY)

    tx_id: str = text_(key=True)
    payment_id: str = text_(key=True)
    chain_id: str = text_()
    payer: str = text_()
    app: str = text_()
    kind: SpentKind = one_of(SpentKind)
    gas: int = number()
    cost: int = amount()
    at_us: int = number()
