"""Data about buyers, and the tokens to submit it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0005"
down_revision = "v0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "capture_token",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("accounts", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("used", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_capture_token")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_capture_token_payment_id", "capture_token", ["payment_id"])
    op.create_index("ix_capture_token_expires_at", "capture_token", ["expires_at"])
    op.create_table(
        "collected_data",
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("ciphertext", sa.LargeBinary(), nullable=False),
        sa.Column("created_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kept_until_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("proven", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("payment_id", "account", name=op.f("pk_collected_data")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_collected_data_account", "collected_data", ["account"])
    op.create_index("ix_collected_data_kept_until_us", "collected_data", ["kept_until_us"])


def downgrade() -> None:
    """Drop the tables, with their data."""
    op.drop_table("collected_data")
    op.drop_table("capture_token")
