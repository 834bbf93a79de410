"""The table of data about buyers; conventions as in `tables`."""

from sqlalchemy import Index

from florin_server.store.tables.fields import BY_KEY, Base, bytes_, number, text_


class CollectedRow(Base, table=True):
    """What somebody told about an account for one payment, encrypted.

    `source` is the way in which it came and a keyed hash of the credential that told it, `app` the
    wallet's app id or key id; both are empty in rows from before they were kept. `proven` tells
    that the same credential confirmed the payment with a signature of the account.
    """

    __tablename__ = "collected_data"
    __table_args__ = (
        Index("ix_collected_data_account", "account"),
        Index("ix_collected_data_kept_until_us", "kept_until_us"),
        BY_KEY,
    )

    payment_id: str = text_(key=True)
    account: str = text_(key=True)
    source: str = text_(key=True)
    app: str = text_()
    key_id: str = text_()
    nonce: bytes = bytes_()
    ciphertext: bytes = bytes_()
    created_at_us: int = number()
    kept_until_us: int = number()
    proven: bool
