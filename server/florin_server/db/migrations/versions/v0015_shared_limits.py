"""Limits and turns under idempotency keys, shared by the processes of a store."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0015"
down_revision = "v0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "process",
        sa.Column("id", sa.Text(), nullable=False),
        _number("now_us"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_process")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "shared_budget",
        sa.Column("key", sa.Text(), nullable=False),
        _number("whole_us"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_shared_budget")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_shared_budget_whole_us", "shared_budget", ["whole_us"])
    op.create_table(
        "shared_hold",
        sa.Column("process_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        _number("n"),
        sa.PrimaryKeyConstraint("process_id", "key", name=op.f("pk_shared_hold")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_shared_hold_key", "shared_hold", ["key"])
    op.create_table(
        "key_turn",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("process_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name=op.f("pk_key_turn")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_key_turn_process_id", "key_turn", ["process_id"])


def downgrade() -> None:
    """Drop the tables."""
    for index, table in (
        ("ix_key_turn_process_id", "key_turn"),
        ("ix_shared_hold_key", "shared_hold"),
        ("ix_shared_budget_whole_us", "shared_budget"),
    ):
        op.drop_index(index, table)
    for table in ("key_turn", "shared_hold", "shared_budget", "process"):
        op.drop_table(table)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=False)
