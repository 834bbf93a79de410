"""Webhooks in the format 2026-05-18: payments whose merchants received the money."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0023"
down_revision = "v0022"
branch_labels = None
depends_on = None

# `money.outbox.store.older_releases` fills in settlements of earlier payments, and the format of
# endpoints, because processes of the earlier release count events differently.
_API = (
    "UPDATE webhook_endpoint SET version = (SELECT partner.version_pin FROM partner"
    " WHERE partner.id = webhook_endpoint.partner_id)"
)


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "payment_settled",
        _text("payment_id"),
        _number("at_us"),
        _text("tx_id", nullable=True),
        _text("unit"),
        _amount("value"),
        _number("after_refunds"),
        _text("partner_id"),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("payment_id", name=op.f("pk_payment_settled")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_payment_settled_partner",
        "payment_settled",
        ["partner_id", "live", "at_us", "payment_id"],
    )
    op.create_table(
        "covering_payout",
        _number("at_us"),
        *(_text(name) for name in ("payout_id", "merchant_id", "asset")),
        _amount("value"),
        _text("tx_id", nullable=True),
        sa.PrimaryKeyConstraint("at_us", "payout_id", name=op.f("pk_covering_payout")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop the tables."""
    op.execute(_API)
    op.drop_table("covering_payout")
    op.drop_index("ix_payment_settled_partner", "payment_settled")
    op.drop_table("payment_settled")


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=False)


def _amount(name: str) -> sa.Column[str]:
    column_type = sa.Text().with_variant(sa.Numeric(78, 0), "postgresql")
    return sa.Column(name, column_type, nullable=False)
