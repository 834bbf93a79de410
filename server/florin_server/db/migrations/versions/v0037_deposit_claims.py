"""Buyers' claims for money at payments' own addresses."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "v0037"
down_revision = "v0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    digits: Any = sa.Text().with_variant(sa.Numeric(78, 0), "postgresql")
    op.create_table(
        "deposit_claim",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("held_id", sa.Text(), nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("asset", sa.Text(), nullable=False),
        sa.Column("value", digits, nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("created_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("decided_at_us", sa.BigInteger(), autoincrement=False, nullable=True),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('open', 'confirmed', 'rejected')", name=op.f("ck_deposit_claim_state")
        ),
        sa.CheckConstraint(
            "decided_by IN ('merchant', 'operator', 'florin')",
            name=op.f("ck_deposit_claim_decided_by"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deposit_claim")),
    )
    op.create_index(
        "uq_deposit_claim_held_id_account", "deposit_claim", ["held_id", "account"], unique=True
    )
    op.create_index("ix_deposit_claim_payment_id", "deposit_claim", ["payment_id"])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("deposit_claim")
