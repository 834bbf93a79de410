"""Lists of payments, settlements by canonical asset, bank accounts, fees, refunds, pauses."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from florin_server.domain.payments.payment import Destination

revision = "v0002"
down_revision = "v0001"
branch_labels = None
depends_on = None

_SIZE = "substr('0' || length(value), -2) || value"
_UNPAID = "status IN ('pending', 'processing')"
_OPTION = (
    "payment_id, id, account, payer, chain_id, asset, value, eta_s, expires_at, method, actions, "
    "terms, created_at_us"
)


def upgrade() -> None:
    """Add the indexes, tables and columns."""
    _make_indexes()
    _settlements_by_key()
    _fees_of_options()
    op.create_table(
        "bank_account",
        _text("id"),
        _text("merchant_id"),
        _text("status"),
        _text("bank_type"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bank_account")),
    )
    op.create_index("ix_bank_account_merchant_id", "bank_account", ["merchant_id"])
    op.create_table(
        "executor_pause",
        _text("id"),
        _number("paused_at_us"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_executor_pause")),
        sqlite_with_rowid=False,
    )
    _make_refund()
    op.drop_column("idempotency", "http_status")


def downgrade() -> None:
    """Drop the indexes, tables and columns, with their data."""
    for name in (
        "ix_payment_merchant",
        "ix_payment_partner",
        "ix_payment_merchant_value",
        "ix_payment_partner_value",
        "ix_payment_merchant_payer",
        "ix_payment_partner_payer",
    ):
        op.drop_index(name, "payment")
    op.drop_index("ix_merchant_list", "merchant")
    op.drop_index("uq_settlement_dest_merchant_id_asset_key", "settlement_dest")
    op.drop_column("settlement_dest", "asset_key")
    op.create_index(
        "uq_settlement_dest_merchant_id_asset",
        "settlement_dest",
        ["merchant_id", "asset"],
        unique=True,
    )
    for column in ("fee", "fee_fixed", "fee_basis_points"):
        op.drop_column("payment_option", column)
    for table in ("bank_account", "executor_pause", "refund"):
        op.drop_table(table)
    op.add_column(
        "idempotency", sa.Column("http_status", sa.BigInteger(), nullable=False, server_default="0")
    )


def _text(name: str, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=null)


def _number(name: str, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=null)


def _amount(name: str) -> sa.Column[Any]:
    """Return a column for an unsigned 256-bit number."""
    digits = sa.Text().with_variant(sa.Numeric(78, 0), "postgresql")
    return sa.Column(name, digits, nullable=False)


def _make_indexes() -> None:
    size = sa.text(_SIZE if op.get_bind().dialect.name == "sqlite" else "value")
    op.create_index("ix_payment_merchant", "payment", ["merchant_id", "id"])
    op.create_index("ix_payment_partner", "payment", ["partner_id", "live", "id"])
    op.create_index("ix_payment_merchant_value", "payment", ["merchant_id", size, "id"])
    op.create_index("ix_payment_partner_value", "payment", ["partner_id", "live", size, "id"])
    for name, columns in (
        ("ix_payment_merchant_payer", ["merchant_id", "payer"]),
        ("ix_payment_partner_payer", ["partner_id", "live", "payer"]),
    ):
        pays = sa.text("payer IS NOT NULL")
        op.create_index(name, "payment", columns, sqlite_where=pays, postgresql_where=pays)
    op.create_index("ix_merchant_list", "merchant", ["partner_id", "live", "created_at_us", "id"])


def _settlements_by_key() -> None:
    op.drop_index("uq_settlement_dest_merchant_id_asset", "settlement_dest")
    op.execute("CREATE TABLE settlement_dest_v0001 AS SELECT * FROM settlement_dest")
    op.drop_table("settlement_dest")
    op.create_table(
        "settlement_dest",
        _text("id"),
        _text("merchant_id"),
        _text("asset"),
        _text("account"),
        _text("asset_key"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_settlement_dest")),
    )
    bind = op.get_bind()
    seen_keys = set()
    # of two spellings of one asset, which v0001 took for two assets, keep the older
    old = "SELECT id, merchant_id, asset, account FROM settlement_dest_v0001 ORDER BY id"
    for row in bind.execute(sa.text(old)).all():
        key = Destination(*row).asset_key
        if (row.merchant_id, key) not in seen_keys:
            seen_keys.add((row.merchant_id, key))
            bind.execute(
                sa.text("INSERT INTO settlement_dest VALUES (:id, :merchant, :asset, :to, :key)"),
                {"id": row.id, "merchant": row.merchant_id, "asset": row.asset}
                | {"to": row.account, "key": key},
            )
    op.drop_table("settlement_dest_v0001")
    op.create_index(
        "uq_settlement_dest_merchant_id_asset_key",
        "settlement_dest",
        ["merchant_id", "asset_key"],
        unique=True,
    )


def _fees_of_options() -> None:
    op.execute("CREATE TABLE payment_option_v0001 AS SELECT * FROM payment_option")
    op.drop_table("payment_option")
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
        _amount("fee"),
        _amount("fee_fixed"),
        _number("fee_basis_points"),
        sa.PrimaryKeyConstraint("payment_id", "id", name=op.f("pk_payment_option")),
        sqlite_with_rowid=False,
    )
    # the parts of the fee were not stored; the total is in the terms
    fee = "json_extract(terms, '$.fee')"
    if op.get_bind().dialect.name != "sqlite":
        fee = "CAST(CAST(terms AS jsonb) ->> 'fee' AS NUMERIC(78, 0))"
    op.execute(
        f"INSERT INTO payment_option SELECT {_OPTION}, coalesce({fee}, '0'), '0', 0 "  # noqa: S608
        "FROM payment_option_v0001"
    )
    op.drop_table("payment_option_v0001")


def _make_refund() -> None:
    op.create_table(
        "refund",
        _text("id"),
        _text("payment_id"),
        _text("unit"),
        _amount("value"),
        _text("account", null=True),
        _text("status"),
        _text("tx_id", null=True),
        _number("created_at_us"),
        _number("completed_at_us", null=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_refund")),
        sa.CheckConstraint(
            "status IN ('pending', 'processing', 'succeeded', 'failed')",
            name=op.f("ck_refund_status"),
        ),
    )
    op.create_index("uq_refund_payment_id", "refund", ["payment_id"], unique=True)
    unpaid = sa.text(_UNPAID)
    op.create_index(
        "ix_refund_open",
        "refund",
        ["created_at_us"],
        sqlite_where=unpaid,
        postgresql_where=unpaid,
    )
