"""Merchants that owe fees."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0039"
down_revision = "v0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "fee_debtor",
        sa.Column("asset", sa.Text(), nullable=False),
        sa.Column("merchant_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("asset", "merchant_id", name=op.f("pk_fee_debtor")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("fee_debtor")
