"""Lists of blocked accounts, imported from files."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0004"
down_revision = "v0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "screening_list",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("published_at_us", sa.BigInteger(), autoincrement=False, nullable=True),
        sa.Column("imported_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("count", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_screening_list")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "screened_address",
        sa.Column("list_name", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint(
            "list_name", "namespace", "address", name=op.f("pk_screened_address")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_screened_address_namespace_address", "screened_address", ["namespace", "address"]
    )


def downgrade() -> None:
    """Drop the tables, with their data."""
    op.drop_table("screened_address")
    op.drop_table("screening_list")
