"""The tables of data about buyers; conventions as in `tables`."""

from sqlalchemy import Index

from florin_server.store.fields import BY_KEY, Base, bytes_, json_, number, text_


class CaptureTokenRow(Base, table=True):
    """The right to hand in data about some accounts once; only the hash of the token is kept.

    `used` is what was handed in, as a hash that needs the token.
    """

    __tablename__ = "capture_token"
    __table_args__ = (
        Index("ix_capture_token_payment_id", "payment_id"),
        Index("ix_capture_token_expires_at", "expires_at"),
        BY_KEY,
    )

    hash: str = text_(key=True)
    payment_id: str = text_()
    accounts: list[str] = json_()
    expires_at: int = number()
    used: bytes | None = bytes_()


class CollectedRow(Base, table=True):
    """What a buyer told about itself for one payment, encrypted.

    `proven` tells that a signature of the account was accepted for the payment.
    """

    __tablename__ = "collected_data"
    __table_args__ = (
        Index("ix_collected_data_account", "account"),
        Index("ix_collected_data_kept_until_us", "kept_until_us"),
        BY_KEY,
    )

    payment_id: str = text_(key=True)
    account: str = text_(key=True)
    key_id: str = text_()
    nonce: bytes = bytes_()
    ciphertext: bytes = bytes_()
    created_at_us: int = number()
    kept_until_us: int = number()
    proven: bool
