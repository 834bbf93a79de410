"""Hourly figures of nodes and webhook endpoints; an index of ended transactions by sender."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0031"
down_revision = "v0030"
branch_labels = None
depends_on = None

_NODE_COUNTS = (
    *("checks", "healthy_checks", "probes", "lag_sum", "lag_max"),
    *(f"answers_{place}" for place in range(12)),
    *("timeouts", "unreachable", "rate_limited", "refused", "stale", "wrong_chain"),
)


def upgrade() -> None:
    """Add the tables and the index."""
    op.create_table(
        "node_hour",
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("hour", sa.BigInteger(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _NODE_COUNTS),
        sa.PrimaryKeyConstraint("chain_id", "node", "hour", name=op.f("pk_node_hour")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "webhook_hour",
        sa.Column("endpoint_id", sa.Text(), nullable=False),
        sa.Column("hour", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("successes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("endpoint_id", "hour", name=op.f("pk_webhook_hour")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_webhook_hour_hour", "webhook_hour", ["hour"])
    predicate = sa.text("state = 'final'")
    op.create_index(
        "ix_chain_tx_final",
        "chain_tx",
        ["chain_id", "sender", "created_at_us"],
        sqlite_where=predicate,
        postgresql_where=predicate,
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_chain_tx_final", table_name="chain_tx")
    op.drop_index("ix_webhook_hour_hour", table_name="webhook_hour")
    op.drop_table("webhook_hour")
    op.drop_table("node_hour")
