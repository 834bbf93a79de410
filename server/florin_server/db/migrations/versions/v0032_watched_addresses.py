"""Addresses by which transactions that wallets send themselves are found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0032"
down_revision = "v0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "watched_address",
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("asked_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("until_s", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "payment_id", name=op.f("pk_watched_address")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("watched_address")
