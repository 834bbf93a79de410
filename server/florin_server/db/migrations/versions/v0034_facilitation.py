"""Transfers that Florin sends for others, and their budgets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from florin_server.db.engine.columns import U256, JsonText

revision = "v0034"
down_revision = "v0033"
branch_labels = None
depends_on = None

_OPEN = sa.text("state IN ('waiting', 'sent')")
_BOUND = sa.text("payment_id IS NOT NULL AND state <> 'failed'")


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "facilitation",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("api_key", sa.Text(), nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=True),
        sa.Column("asset", sa.Text(), nullable=False),
        sa.Column("payer", sa.Text(), nullable=False),
        sa.Column("pay_to", sa.Text(), nullable=False),
        sa.Column("value", U256(), nullable=False),
        sa.Column("content", JsonText(), nullable=False),
        sa.Column("gas", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("expires_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("head", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("tx_hash", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ended_at_us", sa.BigInteger(), autoincrement=False, nullable=True),
        sa.CheckConstraint(
            "state IN ('waiting', 'sent', 'succeeded', 'failed')",
            name=op.f("ck_facilitation_state"),
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_facilitation")),
    )
    op.create_index(
        "ix_facilitation_open",
        "facilitation",
        ["chain_id"],
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    )
    op.create_index(
        "uq_facilitation_payment",
        "facilitation",
        ["payment_id"],
        unique=True,
        sqlite_where=_BOUND,
        postgresql_where=_BOUND,
    )
    op.create_index("ix_facilitation_chain_id_tx_hash", "facilitation", ["chain_id", "tx_hash"])
    op.create_table(
        "facilitated_gas",
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("hour_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("gas", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "hour_us", "owner", name=op.f("pk_facilitated_gas")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("facilitated_gas")
    op.drop_table("facilitation")
