"""Names of API keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0018"
down_revision = "v0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; existing keys have an empty name. Scopes stay unchanged."""
    op.add_column("api_key", sa.Column("name", sa.Text(), server_default="", nullable=False))


def downgrade() -> None:
    """Drop the column, with the names."""
    op.drop_column("api_key", "name")
