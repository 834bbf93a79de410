"""Events of money at payments' own addresses."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0036"
down_revision = "v0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "deposit_event",
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=True),
        sa.Column("at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("partner_id", sa.Text(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("payment_id", "name", name=op.f("pk_deposit_event")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_deposit_event_partner", "deposit_event", ["partner_id", "live", "at_us", "payment_id"]
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("deposit_event")
