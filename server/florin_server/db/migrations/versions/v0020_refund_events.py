"""Webhook events of refunds: their changes as rows, and the scope of replays."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0020"
down_revision = "v0019"
branch_labels = None
depends_on = None

# of earlier changes of a refund, only its current state is known
_KNOWN = """
INSERT INTO refund_event (payment_id, version, status, at_us, tx_id, partner_id, live)
SELECT refund.payment_id, 1, refund.status, coalesce(refund.completed_at_us, refund.created_at_us),
    refund.tx_id, payment.partner_id, payment.live
FROM refund JOIN payment ON payment.id = refund.payment_id
"""


def upgrade() -> None:
    """Add the table and the columns; no webhook reports earlier changes."""
    op.create_table(
        "refund_event",
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tx_id", sa.Text(), nullable=True),
        sa.Column("partner_id", sa.Text(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.CheckConstraint(
            "status IN ('pending', 'processing', 'succeeded', 'failed')",
            name=op.f("ck_refund_event_status"),
        ),
        sa.PrimaryKeyConstraint("payment_id", "version", name=op.f("pk_refund_event")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_refund_event_partner", "refund_event", ["partner_id", "live", "at_us", "payment_id"]
    )
    op.add_column("refund", _number("version", "1"))
    op.execute(_KNOWN)
    op.add_column("webhook_delivery", _number("only_to", "-1"))
    op.add_column(
        "webhook_delivery", sa.Column("only_types", sa.Text(), server_default="", nullable=False)
    )


def downgrade() -> None:
    """Drop the columns and the table."""
    op.drop_column("webhook_delivery", "only_types")
    op.drop_column("webhook_delivery", "only_to")
    op.drop_column("refund", "version")
    op.drop_index("ix_refund_event_partner", "refund_event")
    op.drop_table("refund_event")


def _number(name: str, default: str) -> sa.Column[int]:
    return sa.Column(
        name, sa.BigInteger(), autoincrement=False, server_default=default, nullable=False
    )
