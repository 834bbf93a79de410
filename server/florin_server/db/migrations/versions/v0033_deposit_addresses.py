"""Payments' own addresses, and the money that came there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from florin_server.db.engine.columns import U256

revision = "v0033"
down_revision = "v0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "deposit_address",
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("option_id", sa.Text(), nullable=False),
        sa.Column("merchant_id", sa.Text(), nullable=False),
        sa.Column("asset", sa.Text(), nullable=False),
        sa.Column("refund_account", sa.Text(), nullable=True),
        sa.Column("from_block", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("opened_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("until_s", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "address", name=op.f("pk_deposit_address")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_deposit_address_payment", "deposit_address", ["payment_id"])
    op.create_index(
        "ix_deposit_address_watched", "deposit_address", ["chain_id", "until_s", "merchant_id"]
    )
    op.create_table(
        "deposit",
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("asset", sa.Text(), nullable=False),
        sa.Column("block_number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tx_hash", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("block_hash", sa.Text(), nullable=False),
        sa.Column("sender", sa.Text(), nullable=False),
        sa.Column("value", U256(), nullable=False),
        sa.Column("seen_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("is_final", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("returned_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint(
            "chain_id",
            "address",
            "asset",
            "block_number",
            "tx_hash",
            "position",
            name=op.f("pk_deposit"),
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "deposit_cursor",
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("block", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("chain_id", name=op.f("pk_deposit_cursor")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("deposit_cursor")
    op.drop_table("deposit")
    op.drop_table("deposit_address")
