"""The resolved builds of options."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0003"
down_revision = "v0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "issued",
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("option_id", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("actions", sa.Text(), nullable=False),
        sa.Column("terms", sa.Text(), nullable=False),
        sa.Column("head", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("issued_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("expires_at", sa.BigInteger(), autoincrement=False, nullable=True),
        sa.Column("reference", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("payment_id", "option_id", "n", name=op.f("pk_issued")),
        sqlite_with_rowid=False,
    )
    text_clause = sa.text("reference IS NOT NULL")
    op.create_index(
        "ix_issued_reference",
        "issued",
        ["reference"],
        sqlite_where=text_clause,
        postgresql_where=text_clause,
    )


def downgrade() -> None:
    """Drop the table, with its data."""
    op.drop_table("issued")
