"""Tables about transactions of ours, and about who sends them.

Conventions as in `tables`.
"""

from sqlalchemy import CheckConstraint, Index

from florin_server.domain.settlement.chain_txs import PayerKind, SpentKind, TxState, Watcher
from florin_server.store.tables.fields import (
    BY_KEY,
    Base,
    amount,
    bytes_,
    id_of,
    number,
    one_of,
    only,
    partial,
    text_,
)

# a query uses a partial index only if it repeats the very same words
OPEN = "state IN ('signed', 'sent')"


class LeaseRow(Base, table=True):
    """Who does a job alone. `epoch` rises with every new owner and fences off the old one."""

    __tablename__ = "lease"
    __table_args__ = (BY_KEY,)

    name: str = text_(key=True)
    owner: str = text_()
    epoch: int = number()
    until_us: int = number()


class RelayerRow(Base, table=True):
    """The next nonce of an address that signs for us."""

    __tablename__ = "relayer"
    __table_args__ = (BY_KEY,)

    chain_id: str = text_(key=True)
    sender: str = text_(key=True)
    next_nonce: int = number()


class ChainTxRow(Base, table=True):
    """A transaction of ours; two that may still be mined never share a nonce."""

    __tablename__ = "chain_tx"
    __table_args__ = (
        only("state", TxState),
        Index("uq_chain_tx_chain_id_hash", "chain_id", "hash", unique=True),
        partial("uq_chain_tx_open", OPEN, "chain_id", "sender", "nonce", unique=True),
    )

    id: str = text_(key=True)
    chain_id: str = text_()
    sender: str = text_()
    nonce: int = number()
    raw: bytes = bytes_()
    hash: str = text_()
    state: TxState = one_of(TxState)
    created_at_us: int = number()
    sent_block: int | None = number()
    block_number: int | None = number()
    block_hash: str | None = text_()
    final_hash: str | None = text_()
    since_block: int | None = number()


class ChainTxBumpRow(Base, table=True):
    """The same transaction with the same nonce, signed again for a higher fee."""

    __tablename__ = "chain_tx_bump"
    __table_args__ = (BY_KEY,)

    tx_id: str = text_(key=True)
    n: int = number(key=True)
    raw: bytes = bytes_()
    hash: str = text_()
    created_at_us: int = number()


class ChainTxItemRow(Base, table=True):
    """A payment that a transaction settles, in calldata order, or a payout that it makes."""

    __tablename__ = "chain_tx_item"
    __table_args__ = (
        CheckConstraint("(payment_id IS NULL) <> (payout_id IS NULL)", name="one_item"),
        BY_KEY,
    )

    tx_id: str = id_of("chain_tx", key=True)
    n: int = number(key=True)
    payment_id: str | None = id_of("payment")
    payout_id: str | None = id_of("payout")
    kind: PayerKind | None = one_of(PayerKind)
    gas: int = number(default="0")


class WatchedRow(Base, table=True):
    """A final transaction that a deep reorganisation might still undo."""

    __tablename__ = "watched_tx"
    __table_args__ = (only("watcher", Watcher), BY_KEY)

    chain_id: str = text_(key=True)
    tx_hash: str = text_(key=True)
    watcher: Watcher = one_of(Watcher)
    block_number: int = number()
    block_hash: str = text_()


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
