"""The first schema."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "v0001"
down_revision = None
branch_labels = None
depends_on = None

_STATUS = (
    "status IN ('requires_action', 'processing', 'succeeded', 'failed', 'expired', 'cancelled')"
)


def upgrade() -> None:
    """Create the tables."""
    _make_partner()
    _make_api_key()
    _make_wallet_app()
    _make_merchant()
    _make_settlement_dest()
    _make_idempotency()
    _make_payment()
    _make_payment_event()
    _make_payment_option()
    _make_confirm()
    _make_lease()
    _make_relayer()
    _make_chain_tx()
    _make_chain_tx_item()
    _make_ledger_journal()
    _make_ledger_transfer()


def downgrade() -> None:
    """Drop the tables."""
    for table in (
        "partner",
        "api_key",
        "wallet_app",
        "merchant",
        "settlement_dest",
        "idempotency",
        "payment",
        "payment_event",
        "payment_option",
        "confirm",
        "lease",
        "relayer",
        "chain_tx",
        "chain_tx_item",
        "ledger_journal",
        "ledger_transfer",
    ):
        op.drop_table(table)


def _text(name: str, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=null)


def _number(name: str, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=null)


def _bytes(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.LargeBinary(), nullable=False)


def _flag(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Boolean(), nullable=False)


def _amount(name: str, *, null: bool = False) -> sa.Column[Any]:
    """Return a column for an unsigned 256-bit number."""
    digits = sa.Text().with_variant(sa.Numeric(78, 0), "postgresql")
    return sa.Column(name, digits, nullable=null)


def _partial(
    name: str, table: str, columns: list[str], where: str, *, unique: bool = False
) -> None:
    predicate = sa.text(where)
    op.create_index(
        name, table, columns, unique=unique, sqlite_where=predicate, postgresql_where=predicate
    )


def _make_partner() -> None:
    op.create_table(
        "partner",
        _text("id"),
        _text("name"),
        _text("version_pin"),
        _text("status"),
        _number("created_at_us"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_partner")),
        sa.CheckConstraint("status IN ('active', 'suspended')", name=op.f("ck_partner_status")),
        sqlite_with_rowid=False,
    )


def _make_api_key() -> None:
    op.create_table(
        "api_key",
        _text("key_id"),
        _text("kind"),
        _flag("live"),
        _text("partner_id", null=True),
        _bytes("hash"),
        _text("last4"),
        _text("scopes"),
        _text("version_pin", null=True),
        _number("created_at_us"),
        _number("revoked_at_us", null=True),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_api_key")),
        sa.CheckConstraint("kind IN ('partner', 'wallet')", name=op.f("ck_api_key_kind")),
    )
    op.create_index("ix_api_key_partner_id", "api_key", ["partner_id"])
    op.create_index("uq_api_key_hash", "api_key", ["hash"], unique=True)


def _make_wallet_app() -> None:
    op.create_table(
        "wallet_app",
        _text("app_id"),
        _text("name"),
        _text("icon_url", null=True),
        _flag("live"),
        _text("version_pin"),
        _number("created_at_us"),
        _number("revoked_at_us", null=True),
        sa.PrimaryKeyConstraint("app_id", name=op.f("pk_wallet_app")),
        sqlite_with_rowid=False,
    )


def _make_merchant() -> None:
    op.create_table(
        "merchant",
        _text("id"),
        _text("partner_id"),
        _text("name"),
        _text("email"),
        _text("icon_url", null=True),
        _text("status"),
        _flag("live"),
        _number("created_at_us"),
        _number("deleted_at_us", null=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_merchant")),
        sa.CheckConstraint(
            "status IN ('active', 'inactive', 'suspended')", name=op.f("ck_merchant_status")
        ),
        sqlite_with_rowid=False,
    )


def _make_settlement_dest() -> None:
    op.create_table(
        "settlement_dest",
        _text("id"),
        _text("merchant_id"),
        _text("asset"),
        _text("account"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_settlement_dest")),
    )
    op.create_index(
        "uq_settlement_dest_merchant_id_asset",
        "settlement_dest",
        ["merchant_id", "asset"],
        unique=True,
    )


def _make_idempotency() -> None:
    op.create_table(
        "idempotency",
        _text("scope"),
        _text("key"),
        _bytes("fingerprint"),
        _bytes("body"),
        _number("http_status"),
        _number("created_at_us"),
        _number("expires_at_us", null=True),
        sa.PrimaryKeyConstraint("scope", "key", name=op.f("pk_idempotency")),
    )
    _partial("ix_idempotency_expiry", "idempotency", ["expires_at_us"], "expires_at_us IS NOT NULL")


def _make_payment() -> None:
    op.create_table(
        "payment",
        _text("id"),
        _text("partner_id"),
        _text("merchant_id"),
        _flag("live"),
        _text("status"),
        _number("version"),
        _text("unit"),
        _amount("value"),
        _text("reference_id"),
        _text("success_url", null=True),
        _text("error_url", null=True),
        _bytes("salt"),
        _number("created_at_us"),
        _number("updated_at_us"),
        _number("expires_at"),
        _text("option_id", null=True),
        _text("payer", null=True),
        _text("provider_name", null=True),
        _text("provider_icon", null=True),
        _text("tx_id", null=True),
        _text("option_unit", null=True),
        _amount("option_value", null=True),
        _amount("settled_value", null=True),
        _text("failure_code", null=True),
        _text("failure_detail", null=True),
        _text("cancelled_reason", null=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payment")),
        sa.CheckConstraint(_STATUS, name=op.f("ck_payment_status")),
        sa.CheckConstraint(
            "failure_code IN ('declined_user')", name=op.f("ck_payment_failure_code")
        ),
        sa.CheckConstraint(
            "cancelled_reason IN ('cancelled_by_user', 'cancelled_by_merchant')",
            name=op.f("ck_payment_cancelled_reason"),
        ),
        sqlite_with_rowid=False,
    )
    _partial("ix_payment_expiry", "payment", ["expires_at"], "status = 'requires_action'")


def _make_payment_event() -> None:
    op.create_table(
        "payment_event",
        _text("payment_id"),
        _number("version"),
        _text("status"),
        _number("at_us"),
        _text("cause"),
        _text("detail", null=True),
        sa.PrimaryKeyConstraint("payment_id", "version", name=op.f("pk_payment_event")),
        sa.CheckConstraint(_STATUS, name=op.f("ck_payment_event_status")),
        sqlite_with_rowid=False,
    )


def _make_payment_option() -> None:
    op.create_table(
        "payment_option",
        _text("payment_id"),
        _text("id"),
        _text("account"),
        _text("payer"),
        _text("chain_id"),
        _text("asset"),
        _amount("value"),
        _number("eta_s"),
        _number("expires_at", null=True),
        _text("method"),
        _text("actions"),
        _text("terms"),
        _number("created_at_us"),
        sa.PrimaryKeyConstraint("payment_id", "id", name=op.f("pk_payment_option")),
        sqlite_with_rowid=False,
    )


def _make_confirm() -> None:
    op.create_table(
        "confirm",
        _text("payment_id"),
        _text("option_id"),
        _text("outputs"),
        _bytes("digest"),
        _number("at_us"),
        _text("chain_id", null=True),
        _number("from_block", null=True),
        _text("state"),
        _number("retry_at_us"),
        sa.PrimaryKeyConstraint("payment_id", name=op.f("pk_confirm")),
        sa.CheckConstraint(
            "state IN ('waiting', 'submitted', 'done')", name=op.f("ck_confirm_state")
        ),
        sqlite_with_rowid=False,
    )
    _partial("ix_confirm_unsettled", "confirm", ["chain_id", "state", "at_us"], "state <> 'done'")


def _make_lease() -> None:
    op.create_table(
        "lease",
        _text("name"),
        _text("owner"),
        _number("epoch"),
        _number("until_us"),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_lease")),
        sqlite_with_rowid=False,
    )


def _make_relayer() -> None:
    op.create_table(
        "relayer",
        _text("chain_id"),
        _text("sender"),
        _number("next_nonce"),
        sa.PrimaryKeyConstraint("chain_id", "sender", name=op.f("pk_relayer")),
        sqlite_with_rowid=False,
    )


def _make_chain_tx() -> None:
    op.create_table(
        "chain_tx",
        _text("id"),
        _text("chain_id"),
        _text("sender"),
        _number("nonce"),
        _bytes("raw"),
        _text("hash"),
        _text("state"),
        _number("created_at_us"),
        _number("sent_block", null=True),
        _number("block_number", null=True),
        _text("block_hash", null=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chain_tx")),
        sa.CheckConstraint(
            "state IN ('signed', 'sent', 'final', 'replaced')",
            name=op.f("ck_chain_tx_state"),
        ),
    )
    op.create_index("uq_chain_tx_chain_id_hash", "chain_tx", ["chain_id", "hash"], unique=True)
    _partial(
        "uq_chain_tx_open",
        "chain_tx",
        ["chain_id", "sender", "nonce"],
        "state IN ('signed', 'sent')",
        unique=True,
    )


def _make_chain_tx_item() -> None:
    op.create_table(
        "chain_tx_item",
        _text("tx_id"),
        _number("n"),
        _text("payment_id"),
        sa.PrimaryKeyConstraint("tx_id", "n", name=op.f("pk_chain_tx_item")),
        sqlite_with_rowid=False,
    )


def _make_ledger_journal() -> None:
    op.create_table(
        "ledger_journal",
        _text("idem_key"),
        _text("type"),
        _text("payment_id", null=True),
        _text("tx_hash", null=True),
        _number("at_us"),
        sa.PrimaryKeyConstraint("idem_key", name=op.f("pk_ledger_journal")),
        sqlite_with_rowid=False,
    )


def _make_ledger_transfer() -> None:
    op.create_table(
        "ledger_transfer",
        _text("idem_key"),
        _number("n"),
        _text("debit"),
        _text("credit"),
        _text("asset"),
        _amount("amount"),
        sa.PrimaryKeyConstraint("idem_key", "n", name=op.f("pk_ledger_transfer")),
        sa.CheckConstraint("debit <> credit", name=op.f("ck_ledger_transfer_two_accounts")),
        sa.CheckConstraint("amount <> '0'", name=op.f("ck_ledger_transfer_amount")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_ledger_transfer_credit", "ledger_transfer", ["credit", "asset"])
    op.create_index("ix_ledger_transfer_debit", "ledger_transfer", ["debit", "asset"])
