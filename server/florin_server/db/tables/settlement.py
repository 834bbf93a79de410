"""Tables of our transactions, and of their senders.

Conventions as in `tables`.
"""

from sqlalchemy import CheckConstraint, Index

from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    amount_column,
    bytes_column,
    check_enum,
    enum_column,
    foreign_id_column,
    integer_column,
    partial_index,
    text_column,
)
from florin_server.domain.settlement.chain_txs import (
    GasSpendingKind,
    PayerKind,
    ReorgWatcher,
    TxState,
)

# a query uses a partial index only if it repeats the predicate exactly
OPEN_TX_PREDICATE = "state IN ('signed', 'sent')"
FINAL_TX_PREDICATE = "state = 'final'"
ENDED_TX_PREDICATE = "state IN ('final', 'replaced')"


class LeaseRow(TableRow, table=True):
    """The lease of a job; `epoch` rises with every new owner and fences off the earlier owner."""

    __tablename__ = "lease"
    __table_args__ = (WITHOUT_ROWID,)

    name: str = text_column(key=True)
    owner: str = text_column()
    epoch: int = integer_column()
    until_us: int = integer_column()


class RelayerRow(TableRow, table=True):
    """The next nonce of an address that signs for us."""

    __tablename__ = "relayer"
    __table_args__ = (WITHOUT_ROWID,)

    chain_id: str = text_column(key=True)
    sender: str = text_column(key=True)
    next_nonce: int = integer_column()


class ChainTxRow(TableRow, table=True):
    """A transaction of ours; no two that can still be mined share a nonce."""

    __tablename__ = "chain_tx"
    __table_args__ = (
        check_enum("state", TxState),
        Index("uq_chain_tx_chain_id_hash", "chain_id", "hash", unique=True),
        partial_index(
            "uq_chain_tx_open", OPEN_TX_PREDICATE, "chain_id", "sender", "nonce", unique=True
        ),
        partial_index(
            "ix_chain_tx_final", FINAL_TX_PREDICATE, "chain_id", "sender", "created_at_us"
        ),
        # the archive
        partial_index("ix_chain_tx_ended", ENDED_TX_PREDICATE, "created_at_us", "id"),
    )

    id: str = text_column(key=True)
    chain_id: str = text_column()
    sender: str = text_column()
    nonce: int = integer_column()
    raw: bytes = bytes_column()
    hash: str = text_column()
    state: TxState = enum_column(TxState)
    created_at_us: int = integer_column()
    sent_block: int | None = integer_column()
    block_number: int | None = integer_column()
    block_hash: str | None = text_column()
    final_hash: str | None = text_column()
    since_block: int | None = integer_column()


class ChainTxBumpRow(TableRow, table=True):
    """A variant of a transaction with its nonce, signed again for a higher fee."""

    __tablename__ = "chain_tx_bump"
    __table_args__ = (Index("ix_chain_tx_bump_hash", "hash"), WITHOUT_ROWID)

    tx_id: str = text_column(key=True)
    n: int = integer_column(key=True)
    raw: bytes = bytes_column()
    hash: str = text_column()
    created_at_us: int = integer_column()


class ChainTxItemRow(TableRow, table=True):
    """A payment that a transaction settles, in calldata order, or a payout that it makes."""

    __tablename__ = "chain_tx_item"
    __table_args__ = (
        CheckConstraint("(payment_id IS NULL) <> (payout_id IS NULL)", name="one_item"),
        WITHOUT_ROWID,
    )

    tx_id: str = foreign_id_column("chain_tx", key=True)
    n: int = integer_column(key=True)
    # no foreign key: the rows of old payments go to the archive
    payment_id: str | None = text_column()
    payout_id: str | None = foreign_id_column("payout")
    kind: PayerKind | None = enum_column(PayerKind)
    gas: int = integer_column(default="0")


class WatchedTxRow(TableRow, table=True):
    """A final transaction that a deep reorg could still undo."""

    __tablename__ = "watched_tx"
    __table_args__ = (check_enum("watcher", ReorgWatcher), WITHOUT_ROWID)

    chain_id: str = text_column(key=True)
    tx_hash: str = text_column(key=True)
    watcher: ReorgWatcher = enum_column(ReorgWatcher)
    block_number: int = integer_column()
    block_hash: str = text_column()


class FailedGasRow(TableRow, table=True):
    """Gas of a final transaction that counts against budgets, and its cost in minor units of coin.

    Without a payment: the gas of several payments whose transaction reverted as a whole.
    """

    __tablename__ = "failed_gas"
    __table_args__ = (
        check_enum("kind", GasSpendingKind),
        Index("ix_failed_gas_at_us", "at_us"),
        WITHOUT_ROWID,
    )

    tx_id: str = text_column(key=True)
    payment_id: str = text_column(key=True)
    chain_id: str = text_column()
    payer: str = text_column()
    app: str = text_column()
    kind: GasSpendingKind = enum_column(GasSpendingKind)
    gas: int = integer_column()
    cost: int = amount_column()
    at_us: int = integer_column()
