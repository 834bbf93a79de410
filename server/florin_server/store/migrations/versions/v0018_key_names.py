"""API keys have names."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0018"
down_revision = "v0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column; a key without a name is named by nothing. What keys may do stays."""
    op.add_column("api_key", sa.Column("name", sa.Text(), server_default="", nullable=False))


def downgrade() -> None:
    """Takes it away, with the names."""
    op.drop_column("api_key", "name")
