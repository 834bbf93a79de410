"""Tables for receipts: where payments stand on their chains, and the keys that sign.

Conventions as in `tables`.
"""

from sqlalchemy import Index

from florin_server.store.tables.fields import BY_KEY, Base, bytes_, number, text_


class PaymentEffectRow(Base, table=True):
    """Where the final transaction that paid a payment stands; gone while a reorganisation undid it.

    `position` is the number of the log in its block, or of the instruction in its transaction. The
    hash of the block is empty on chains that tell only final ones.
    """

    __tablename__ = "payment_effect"
    __table_args__ = (BY_KEY,)

    payment_id: str = text_(key=True)
    tx_hash: str = text_()
    block_number: int = number()
    block_hash: str = text_()
    position: int | None = number()


class ReceiptKeyRow(Base, table=True):
    """A key that signs receipts, its secret part sealed; the newest has the highest number."""

    __tablename__ = "receipt_key"
    __table_args__ = (Index("uq_receipt_key_id", "id", unique=True), BY_KEY)

    n: int = number(key=True)
    id: str = text_()
    public: bytes = bytes_()
    seal_id: str = text_()
    nonce: bytes = bytes_()
    ciphertext: bytes = bytes_()
    created_at_us: int = number()
    revoked_at_us: int | None = number()
