"""The on-chain positions of payments, and the keys that sign receipts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0017"
down_revision = "v0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "payment_effect",
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("tx_hash", sa.Text(), nullable=False),
        _number("block_number"),
        sa.Column("block_hash", sa.Text(), nullable=False),
        _number("position", nullable=True),
        sa.PrimaryKeyConstraint("payment_id", name=op.f("pk_payment_effect")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "receipt_key",
        _number("n"),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("public", sa.LargeBinary(), nullable=False),
        sa.Column("seal_id", sa.Text(), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("ciphertext", sa.LargeBinary(), nullable=False),
        _number("created_at_us"),
        _number("revoked_at_us", nullable=True),
        sa.PrimaryKeyConstraint("n", name=op.f("pk_receipt_key")),
        sqlite_with_rowid=False,
    )
    op.create_index("uq_receipt_key_id", "receipt_key", ["id"], unique=True)


def downgrade() -> None:
    """Drop the tables."""
    op.drop_index("uq_receipt_key_id", "receipt_key")
    op.drop_table("receipt_key")
    op.drop_table("payment_effect")


def _number(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=nullable)
