"""Merchants' pictures, stored so that Florin serves them itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0019"
down_revision = "v0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "icon",
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column("png", sa.LargeBinary(), nullable=True),
        sa.Column("fault", sa.Text(), nullable=True),
        sa.Column("tried_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("url", name=op.f("pk_icon")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_icon_digest", "icon", ["digest"])
    op.create_index("ix_icon_tried_at_us", "icon", ["tried_at_us"])


def downgrade() -> None:
    """Drop the table."""
    for index in ("ix_icon_tried_at_us", "ix_icon_digest"):
        op.drop_index(index, "icon")
    op.drop_table("icon")
