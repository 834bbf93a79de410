"""Quarantined items: their step failed unexpectedly, and they stay quarantined over restarts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0021"
down_revision = "v0020"
branch_labels = None
depends_on = None

_LEFT_OUT = "state IN ('set_aside', 'resolved')"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "quarantined_item",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("first_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('set_aside', 'retried', 'resolved')",
            name=op.f("ck_quarantined_item_state"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantined_item")),
    )
    op.create_index(
        "uq_quarantined_item_subject",
        "quarantined_item",
        ["kind", "chain_id", "subject"],
        unique=True,
    )
    op.create_index(
        "ix_quarantined_item_left_out",
        "quarantined_item",
        ["kind", "subject"],
        sqlite_where=sa.text(_LEFT_OUT),
        postgresql_where=sa.text(_LEFT_OUT),
    )
    op.create_index(
        "ix_quarantined_item_state_last_at_us", "quarantined_item", ["state", "last_at_us"]
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_index("ix_quarantined_item_state_last_at_us", "quarantined_item")
    op.drop_index("ix_quarantined_item_left_out", "quarantined_item")
    op.drop_index("uq_quarantined_item_subject", "quarantined_item")
    op.drop_table("quarantined_item")
