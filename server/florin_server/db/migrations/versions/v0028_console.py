"""Indexes for the search of payments, and saved views of the console's list of payments."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "v0028"
down_revision = "v0027"
branch_labels = None
depends_on = None

_HAS_TX = "tx_id IS NOT NULL"
_SHORT_OUTPUTS = "length(outputs) <= 80"


def upgrade() -> None:
    """Add the indexes and the table."""
    _create("payment", "ix_payment_partner_reference", "partner_id", "live", "reference_id", "id")
    _create("payment", "ix_payment_tx_id", "tx_id", where=_HAS_TX)
    _create(
        "payment_settled",
        "ix_payment_settled_tx_id",
        *("partner_id", "live", "tx_id", "payment_id"),
        where=_HAS_TX,
    )
    _create("refund", "ix_refund_tx_id", "tx_id", where=_HAS_TX)
    _create("chain_tx_bump", "ix_chain_tx_bump_hash", "hash")
    _create("confirm", "ix_confirm_outputs", sa.text("lower(outputs)"), where=_SHORT_OUTPUTS)
    _create("webhook_endpoint", "ix_webhook_endpoint_partner", "partner_id", "live")
    op.create_table(
        "console_view",
        sa.Column("partner_id", sa.Text(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("created_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("partner_id", "live", "name", name=op.f("pk_console_view")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop them; views are lost."""
    op.drop_table("console_view")
    op.drop_index("ix_webhook_endpoint_partner", "webhook_endpoint")
    op.drop_index("ix_confirm_outputs", "confirm")
    op.drop_index("ix_chain_tx_bump_hash", "chain_tx_bump")
    op.drop_index("ix_refund_tx_id", "refund")
    op.drop_index("ix_payment_settled_tx_id", "payment_settled")
    op.drop_index("ix_payment_tx_id", "payment")
    op.drop_index("ix_payment_partner_reference", "payment")


def _create(table: str, name: str, *columns: str | sa.TextClause, where: str = "") -> None:
    keys: Sequence[str | sa.TextClause] = columns
    predicate = sa.text(where) if where else None
    op.create_index(name, table, list(keys), sqlite_where=predicate, postgresql_where=predicate)
