"""An index of the transactions that ended, by time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0041"
down_revision = "v0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index."""
    predicate = sa.text("state IN ('final', 'replaced')")
    op.create_index(
        "ix_chain_tx_ended",
        "chain_tx",
        ["created_at_us", "id"],
        sqlite_where=predicate,
        postgresql_where=predicate,
    )


def downgrade() -> None:
    """Drop the index."""
    op.drop_index("ix_chain_tx_ended", table_name="chain_tx")
