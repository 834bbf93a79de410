"""The number of stored options per caller, and an index of an account's options in a payment."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0012"
down_revision = "v0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both; earlier options do not count."""
    op.create_table(
        "option_count",
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("payment_id", "origin", name=op.f("pk_option_count")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_payment_option_payer", "payment_option", ["payment_id", "payer"])


def downgrade() -> None:
    """Drop both."""
    op.drop_index("ix_payment_option_payer", "payment_option")
    op.drop_table("option_count")
