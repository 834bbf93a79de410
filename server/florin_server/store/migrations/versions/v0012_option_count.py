"""How many options are kept for whom, and the options of an account in a payment by an index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0012"
down_revision = "v0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds both; what was offered before counts for nobody."""
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
    """Takes them away."""
    op.drop_index("ix_payment_option_payer", "payment_option")
    op.drop_table("option_count")
