"""Description, lines and metadata of payments; support contacts of merchants."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0027"
down_revision = "v0026"
branch_labels = None
depends_on = None

# none of them exists for earlier payments and merchants, and earlier processes write none
_COLUMNS = (
    ("payment", "description"),
    ("payment", "lines"),
    ("payment", "metadata"),
    ("merchant", "support_email"),
    ("merchant", "support_url"),
)


def upgrade() -> None:
    """Add the columns."""
    for table, column in _COLUMNS:
        op.add_column(table, sa.Column(column, sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop the columns with their content."""
    for table, column in reversed(_COLUMNS):
        op.drop_column(table, column)
