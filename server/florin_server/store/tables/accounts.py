"""Tables about who uses Florin: partners, keys, wallets, merchants and where their money goes.

Conventions as in `tables`.
"""

from sqlalchemy import CheckConstraint, Index
from sqlmodel import Field

from florin_server.domain.accounts.credentials import KeyKind
from florin_server.store.engine.columns import Words
from florin_server.store.tables.fields import BY_KEY, Base, bytes_, number, one_of, only, text_


class PartnerRow(Base, table=True):
    """A business that owns keys and merchants."""

    __tablename__ = "partner"
    __table_args__ = (CheckConstraint("status IN ('active', 'suspended')", name="status"), BY_KEY)

    id: str = text_(key=True)
    name: str = text_()
    version_pin: str = text_()
    status: str = text_()
    created_at_us: int = number()


class ApiKeyRow(Base, table=True):
    """A key of a partner, or of a wallet; only its keyed hash is kept."""

    __tablename__ = "api_key"
    __table_args__ = (
        only("kind", KeyKind),
        Index("ix_api_key_partner_id", "partner_id"),
        Index("uq_api_key_hash", "hash", unique=True),
    )

    key_id: str = text_(key=True)
    kind: KeyKind = one_of(KeyKind)
    live: bool
    partner_id: str | None = text_()
    hash: bytes = bytes_()
    last4: str = text_()
    scopes: frozenset[str] = Field(sa_type=Words)
    version_pin: str | None = text_()
    created_at_us: int = number()
    revoked_at_us: int | None = number()
    name: str = text_(default="")


class WalletAppRow(Base, table=True):
    """A wallet that names itself by an app id."""

    __tablename__ = "wallet_app"
    __table_args__ = (BY_KEY,)

    app_id: str = text_(key=True)
    name: str = text_()
    icon_url: str | None = text_()
    live: bool
    version_pin: str = text_()
    created_at_us: int = number()
    revoked_at_us: int | None = number()


class MerchantRow(Base, table=True):
    """Who is paid."""

    __tablename__ = "merchant"
    __table_args__ = (
        CheckConstraint("status IN ('active', 'inactive', 'suspended')", name="status"),
        Index("ix_merchant_list", "partner_id", "live", "created_at_us", "id"),
        BY_KEY,
    )

    id: str = text_(key=True)
    partner_id: str = text_()
    name: str = text_()
    email: str = text_()
    icon_url: str | None = text_()
    status: str = text_()
    live: bool
    created_at_us: int = number()
    deleted_at_us: int | None = number()


class DestinationRow(Base, table=True):
    """Where a merchant wants one asset to go; at most one place for each asset."""

    __tablename__ = "settlement_dest"
    __table_args__ = (
        Index("uq_settlement_dest_merchant_id_asset_key", "merchant_id", "asset_key", unique=True),
    )

    id: str = text_(key=True)
    merchant_id: str = text_()
    asset: str = text_()
    account: str = text_()
    asset_key: str = text_()


class BankAccountRow(Base, table=True):
    """A merchant's bank account."""

    __tablename__ = "bank_account"
    __table_args__ = (Index("ix_bank_account_merchant_id", "merchant_id"),)

    id: str = text_(key=True)
    merchant_id: str = text_()
    status: str = text_()
    bank_type: str = text_()
