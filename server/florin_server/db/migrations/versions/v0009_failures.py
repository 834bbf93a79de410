"""The number of transactions that failed to pay a confirm, and the cost of each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0009"
down_revision = "v0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and the table."""
    op.add_column("confirm", sa.Column("app", sa.Text(), server_default="", nullable=False))
    op.add_column("confirm", _count("failures"))
    op.add_column("confirm", _count("reverted"))
    op.add_column("chain_tx_item", sa.Column("kind", sa.Text(), nullable=True))
    op.add_column("chain_tx_item", _count("gas"))
    op.create_table(
        "failed_gas",
        sa.Column("tx_id", sa.Text(), nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("payer", sa.Text(), nullable=False),
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("gas", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cost", sa.Text().with_variant(sa.Numeric(78, 0), "postgresql"), nullable=False),
        sa.Column("at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.CheckConstraint("kind IN ('failed', 'opened')", name=op.f("ck_failed_gas_kind")),
        sa.PrimaryKeyConstraint("tx_id", "payment_id", name=op.f("pk_failed_gas")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_failed_gas_at_us", "failed_gas", ["at_us"])


def downgrade() -> None:
    """Drop the table and the columns, with their data."""
    op.drop_table("failed_gas")
    for column in ("gas", "kind"):
        op.drop_column("chain_tx_item", column)
    for column in ("reverted", "failures", "app"):
        op.drop_column("confirm", column)


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, server_default="0", nullable=False)
