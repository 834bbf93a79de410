"""An index of the failed transfers of a payment."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0038"
down_revision = "v0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index."""
    predicate = sa.text("payment_id IS NOT NULL AND state = 'failed'")
    op.create_index(
        "ix_facilitation_failed",
        "facilitation",
        ["payment_id"],
        sqlite_where=predicate,
        postgresql_where=predicate,
    )


def downgrade() -> None:
    """Drop the index."""
    op.drop_index("ix_facilitation_failed", table_name="facilitation")
