"""Merchants and times of journals, for month statements; accents of merchants."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0030"
down_revision = "v0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and indexes.

    Journals of earlier processes have no merchant; `features.reports` finds it by their payments.
    """
    op.add_column("ledger_journal", sa.Column("merchant_id", sa.Text(), nullable=True))
    op.create_index("ix_ledger_journal_merchant", "ledger_journal", ["merchant_id", "at_us"])
    op.create_index("ix_ledger_journal_at", "ledger_journal", ["at_us", "idem_key"])
    op.add_column("merchant", sa.Column("accent", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop the columns and indexes; accents are lost."""
    op.drop_column("merchant", "accent")
    op.drop_index("ix_ledger_journal_at", table_name="ledger_journal")
    op.drop_index("ix_ledger_journal_merchant", table_name="ledger_journal")
    op.drop_column("ledger_journal", "merchant_id")
