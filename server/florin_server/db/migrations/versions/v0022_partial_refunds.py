"""Several refunds per payment: numbered, each with a reason and an amount."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "v0022"
down_revision = "v0021"
branch_labels = None
depends_on = None

# every earlier refund was for the whole payment
_WHOLE = """
UPDATE refund SET payment_value = (SELECT value FROM payment WHERE payment.id = refund.payment_id)
WHERE payment_id IN (SELECT id FROM payment)
"""
_THE_ONLY = """
UPDATE refund_event
SET refund_id = (SELECT id FROM refund WHERE refund.payment_id = refund_event.payment_id)
WHERE payment_id IN (SELECT payment_id FROM refund)
"""


def upgrade() -> None:
    """Add the columns and fill them for refunds of whole payments."""
    op.add_column(
        "refund",
        sa.Column(
            "ordinal", sa.BigInteger(), autoincrement=False, server_default="1", nullable=False
        ),
    )
    op.add_column("refund", sa.Column("reason", sa.Text(), nullable=True))
    digits: Any = sa.Text().with_variant(sa.Numeric(78, 0), "postgresql")
    op.add_column("refund", sa.Column("payment_value", digits, server_default="0", nullable=False))
    op.add_column(
        "refund_event", sa.Column("refund_id", sa.Text(), server_default="", nullable=False)
    )
    op.execute(_WHOLE)
    op.execute(_THE_ONLY)
    op.drop_index("uq_refund_payment_id", "refund")
    op.create_index(
        "uq_refund_payment_id_ordinal", "refund", ["payment_id", "ordinal"], unique=True
    )


def downgrade() -> None:
    """Remove them; fails while a payment has more than one refund, which v0021 cannot hold."""
    op.create_index("uq_refund_payment_id", "refund", ["payment_id"], unique=True)
    op.drop_index("uq_refund_payment_id_ordinal", "refund")
    op.drop_column("refund_event", "refund_id")
    for column in ("payment_value", "reason", "ordinal"):
        op.drop_column("refund", column)
