"""Conditions in the store: all processes report the same, also after a restart."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0024"
down_revision = "v0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "reported_condition",
        *(
            sa.Column(name, sa.Text(), nullable=False)
            for name in ("source", "subject", "name", "state", "reason")
        ),
        *(
            sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=False)
            for name in ("since_us", "seen_us")
        ),
        sa.Column("host", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("source", "subject", "name", name=op.f("pk_reported_condition")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("reported_condition")
