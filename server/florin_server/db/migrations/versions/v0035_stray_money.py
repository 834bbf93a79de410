"""Money that is left at payments' own addresses: looks, and returns to its senders."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0035"
down_revision = "v0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table and the columns."""
    op.create_table(
        "address_sweep",
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("route_chain_id", sa.Text(), nullable=False),
        sa.Column("due_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("read_to", sa.BigInteger(), autoincrement=False, nullable=True),
        sa.Column("tries", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("requested_asset", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("chain_id", "address", name=op.f("pk_address_sweep")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_address_sweep_due", "address_sweep", ["chain_id", "due_at_us"])
    op.add_column("held_money", sa.Column("address", sa.Text(), nullable=True))
    op.add_column("payout", sa.Column("owed_account", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop the table and the columns."""
    op.drop_column("payout", "owed_account")
    op.drop_column("held_money", "address")
    op.drop_table("address_sweep")
