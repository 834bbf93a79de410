"""Tables of Florin's users: partners, keys, wallets, merchants, destinations, ended sessions.

Conventions as in `tables`.
"""

from sqlalchemy import CheckConstraint, Index
from sqlmodel import Field

from florin_server.db.engine.columns import WordSet
from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    bytes_column,
    check_enum,
    enum_column,
    integer_column,
    text_column,
)
from florin_server.domain.accounts.credentials import ApiKeyKind


class PartnerRow(TableRow, table=True):
    """A business that owns keys and merchants."""

    __tablename__ = "partner"
    __table_args__ = (
        CheckConstraint("status IN ('active', 'suspended')", name="status"),
        WITHOUT_ROWID,
    )

    id: str = text_column(key=True)
    name: str = text_column()
    version_pin: str = text_column()
    status: str = text_column()
    created_at_us: int = integer_column()


class ApiKeyRow(TableRow, table=True):
    """A key of a partner or a wallet, of which only a keyed hash is stored."""

    __tablename__ = "api_key"
    __table_args__ = (
        check_enum("kind", ApiKeyKind),
        Index("ix_api_key_partner_id", "partner_id"),
        Index("uq_api_key_hash", "hash", unique=True),
    )

    key_id: str = text_column(key=True)
    kind: ApiKeyKind = enum_column(ApiKeyKind)
    live: bool
    partner_id: str | None = text_column()
    hash: bytes = bytes_column()
    last4: str = text_column()
    scopes: frozenset[str] = Field(sa_type=WordSet)
    version_pin: str | None = text_column()
    created_at_us: int = integer_column()
    revoked_at_us: int | None = integer_column()
    name: str = text_column(default="")


class WalletAppRow(TableRow, table=True):
    """A wallet that identifies itself by an app id."""

    __tablename__ = "wallet_app"
    __table_args__ = (WITHOUT_ROWID,)

    app_id: str = text_column(key=True)
    name: str = text_column()
    icon_url: str | None = text_column()
    live: bool
    version_pin: str = text_column()
    created_at_us: int = integer_column()
    revoked_at_us: int | None = integer_column()


class MerchantRow(TableRow, table=True):
    """A merchant, who receives payments."""

    __tablename__ = "merchant"
    __table_args__ = (
        CheckConstraint("status IN ('active', 'inactive', 'suspended')", name="status"),
        Index("ix_merchant_list", "partner_id", "live", "created_at_us", "id"),
        WITHOUT_ROWID,
    )

    id: str = text_column(key=True)
    partner_id: str = text_column()
    name: str = text_column()
    email: str = text_column()
    icon_url: str | None = text_column()
    status: str = text_column()
    live: bool
    created_at_us: int = integer_column()
    deleted_at_us: int | None = integer_column()
    support_email: str | None = text_column()
    support_url: str | None = text_column()
    accent: str | None = text_column()


class DestinationRow(TableRow, table=True):
    """A merchant's destination for one asset; at most one per asset."""

    __tablename__ = "settlement_dest"
    __table_args__ = (
        Index("uq_settlement_dest_merchant_id_asset_key", "merchant_id", "asset_key", unique=True),
    )

    id: str = text_column(key=True)
    merchant_id: str = text_column()
    asset: str = text_column()
    account: str = text_column()
    asset_key: str = text_column()


class BankAccountRow(TableRow, table=True):
    """A merchant's bank account."""

    __tablename__ = "bank_account"
    __table_args__ = (Index("ix_bank_account_merchant_id", "merchant_id"),)

    id: str = text_column(key=True)
    merchant_id: str = text_column()
    status: str = text_column()
    bank_type: str = text_column()


class ConsoleViewRow(TableRow, table=True):
    """A named filter of the console's list of payments; `query` is that of its address."""

    __tablename__ = "console_view"
    __table_args__ = (WITHOUT_ROWID,)

    partner_id: str = text_column(key=True)
    live: bool = Field(primary_key=True)
    name: str = text_column(key=True)
    query: str = text_column()
    created_at_us: int = integer_column()


class ConsoleSessionRow(TableRow, table=True):
    """A console session that was ended before its time, or whose ticket was used.

    After `expires_at_us` its cookie and its ticket are invalid anyway.
    """

    __tablename__ = "console_session"
    __table_args__ = (Index("ix_console_session_expires_at_us", "expires_at_us"), WITHOUT_ROWID)

    session_id: str = text_column(key=True)
    ended_at_us: int | None = integer_column()
    expires_at_us: int = integer_column()


class ApiKeyUseRow(TableRow, table=True):
    """The last use of a key, to some minutes; a key that was never used has no row."""

    __tablename__ = "api_key_use"
    __table_args__ = (WITHOUT_ROWID,)

    key_id: str = text_column(key=True)
    last_used_at_us: int = integer_column()
