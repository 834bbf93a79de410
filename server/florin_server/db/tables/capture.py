"""The table of data about buyers; conventions as in `tables`."""

from sqlalchemy import Index

from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    bytes_column,
    integer_column,
    text_column,
)


class CollectedDataRow(TableRow, table=True):
    """Encrypted data about an account for one payment.

    `source` is the way of submission and a keyed hash of the submitting credential; `app` is the
    wallet's app id or key id. Both are empty in rows that are older than these columns. `proven` is
    true if the credential also confirmed the payment with a signature of the account.
    """

    __tablename__ = "collected_data"
    __table_args__ = (
        Index("ix_collected_data_account", "account"),
        Index("ix_collected_data_kept_until_us", "kept_until_us"),
        WITHOUT_ROWID,
    )

    payment_id: str = text_column(key=True)
    account: str = text_column(key=True)
    source: str = text_column(key=True)
    app: str = text_column()
    key_id: str = text_column()
    nonce: bytes = bytes_column()
    ciphertext: bytes = bytes_column()
    created_at_us: int = integer_column()
    kept_until_us: int = integer_column()
    proven: bool
