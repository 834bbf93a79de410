"""Tables for receipts: the payments' places on their chains, and the signing keys.

Conventions as in `tables`.
"""

from sqlalchemy import Index

from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    bytes_column,
    integer_column,
    text_column,
)


class PaymentEffectRow(TableRow, table=True):
    """The position of the final transaction that paid a payment; deleted while a reorg undoes it.

    `position` is the number of the log in its block, or of the instruction in its transaction. The
    block hash is empty on chains that report only final blocks.
    """

    __tablename__ = "payment_effect"
    __table_args__ = (WITHOUT_ROWID,)

    payment_id: str = text_column(key=True)
    tx_hash: str = text_column()
    block_number: int = integer_column()
    block_hash: str = text_column()
    position: int | None = integer_column()


class ReceiptKeyRow(TableRow, table=True):
    """A key that signs receipts, its secret part encrypted; the newest has the highest number."""

    __tablename__ = "receipt_key"
    __table_args__ = (Index("uq_receipt_key_id", "id", unique=True), WITHOUT_ROWID)

    n: int = integer_column(key=True)
    id: str = text_column()
    public: bytes = bytes_column()
    seal_id: str = text_column()
    nonce: bytes = bytes_column()
    ciphertext: bytes = bytes_column()
    created_at_us: int = integer_column()
    revoked_at_us: int | None = integer_column()
