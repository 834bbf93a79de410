"""Outgoing money, fee bumps of open transactions, and single values of an installation."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0006"
down_revision = "v0005"
branch_labels = None
depends_on = None

_AMOUNT = sa.Text().with_variant(sa.Numeric(78, 0), "postgresql")


def upgrade() -> None:
    """Add the tables and columns."""
    op.add_column("ledger_journal", sa.Column("note", sa.Text(), nullable=True))
    op.add_column("chain_tx", sa.Column("final_hash", sa.Text(), nullable=True))
    op.create_table(
        "chain_tx_bump",
        sa.Column("tx_id", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("created_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("tx_id", "n", name=op.f("pk_chain_tx_bump")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "watched_tx",
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("tx_hash", sa.Text(), nullable=False),
        sa.Column("watcher", sa.Text(), nullable=False),
        sa.Column("block_number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("block_hash", sa.Text(), nullable=False),
        sa.CheckConstraint("watcher IN ('settler', 'payer')", name=op.f("ck_watched_tx_watcher")),
        sa.PrimaryKeyConstraint("chain_id", "tx_hash", name=op.f("pk_watched_tx")),
        sqlite_with_rowid=False,
    )
    _make_payout()
    op.create_table(
        "nonce_account",
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("slot", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=True),
        sa.Column("option_id", sa.Text(), nullable=True),
        sa.Column("held_until_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "address", name=op.f("pk_nonce_account")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "installation",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_installation")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop the tables and columns, with their data."""
    for table in ("installation", "nonce_account", "payout", "watched_tx", "chain_tx_bump"):
        op.drop_table(table)
    op.drop_column("chain_tx", "final_hash")
    op.drop_column("ledger_journal", "note")


def _make_payout() -> None:
    op.create_table(
        "payout",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("merchant_id", sa.Text(), nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=True),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("asset", sa.Text(), nullable=False),
        sa.Column("value", _AMOUNT, nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("created_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("retry_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("tx_id", sa.Text(), nullable=True),
        sa.Column("completed_at_us", sa.BigInteger(), autoincrement=False, nullable=True),
        sa.Column("lapses_at", sa.BigInteger(), autoincrement=False, nullable=True),
        sa.Column("backed", sa.Boolean(), nullable=False),
        sa.CheckConstraint("kind IN ('refund', 'balance', 'return')", name=op.f("ck_payout_kind")),
        sa.CheckConstraint(
            "status IN ('waiting', 'submitted', 'done', 'refused')", name=op.f("ck_payout_status")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payout")),
        sqlite_with_rowid=False,
    )
    owed = sa.text("status IN ('waiting', 'submitted')")
    op.create_index(
        "ix_payout_owed",
        "payout",
        ["chain_id", "status", "created_at_us"],
        sqlite_where=owed,
        postgresql_where=owed,
    )
    op.create_index("ix_payout_merchant_id", "payout", ["merchant_id", "created_at_us"])
