"""Webhooks: endpoints, their secrets, their deliveries, and their last attempts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0016"
down_revision = "v0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "webhook_endpoint",
        _text("id"),
        _text("partner_id"),
        _text("merchant_id", nullable=True),
        sa.Column("live", sa.Boolean(), nullable=False),
        *(_text(name) for name in ("url", "events", "description", "version", "state")),
        _text("paused_reason", nullable=True),
        _number("created_at_us"),
        _number("failures"),
        _number("failing_since_us", nullable=True),
        _number("retry_at_us"),
        _number("delivered_at_us", nullable=True),
        _number("attempts"),
        _text("owner"),
        sa.CheckConstraint("state IN ('active', 'paused')", name=op.f("ck_webhook_endpoint_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_endpoint")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "uq_webhook_endpoint_owner_live_url",
        "webhook_endpoint",
        ["owner", "live", "url"],
        unique=True,
    )
    op.create_index(
        "ix_webhook_endpoint_state_retry_at_us", "webhook_endpoint", ["state", "retry_at_us"]
    )
    op.create_table(
        "webhook_secret",
        _text("endpoint_id"),
        _number("n"),
        _text("key_id"),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("ciphertext", sa.LargeBinary(), nullable=False),
        _text("public_key"),
        _number("expires_at_us", nullable=True),
        sa.PrimaryKeyConstraint("endpoint_id", "n", name=op.f("pk_webhook_secret")),
        sqlite_with_rowid=False,
    )
    _deliveries()


def _deliveries() -> None:
    op.create_table(
        "webhook_delivery",
        _text("endpoint_id"),
        _text("payment_id"),
        *(_number(name) for name in ("told", "newest", "attempts", "since_us")),
        _number("next_at_us", nullable=True),
        sa.Column("claimed", sa.Boolean(), nullable=False),
        _number("epoch"),
        sa.PrimaryKeyConstraint("endpoint_id", "payment_id", name=op.f("pk_webhook_delivery")),
        sqlite_with_rowid=False,
    )
    waits = sa.text("next_at_us IS NOT NULL")
    op.create_index(
        "ix_webhook_delivery_due",
        "webhook_delivery",
        ["endpoint_id", "next_at_us"],
        sqlite_where=waits,
        postgresql_where=waits,
    )
    op.create_index("ix_webhook_delivery_since_us", "webhook_delivery", ["since_us"])
    op.create_table(
        "webhook_attempt",
        _text("endpoint_id"),
        _number("slot"),
        _number("n"),
        _text("payment_id"),
        _number("version"),
        _text("event_type"),
        _number("at_us"),
        _number("took_ms"),
        _number("status", nullable=True),
        _text("fault", nullable=True),
        _text("answer"),
        sa.PrimaryKeyConstraint("endpoint_id", "slot", name=op.f("pk_webhook_attempt")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("webhook_attempt")
    op.drop_index("ix_webhook_delivery_since_us", "webhook_delivery")
    op.drop_index("ix_webhook_delivery_due", "webhook_delivery")
    op.drop_table("webhook_delivery")
    op.drop_table("webhook_secret")
    op.drop_index("uq_webhook_endpoint_owner_live_url", "webhook_endpoint")
    op.drop_table("webhook_endpoint")


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _number(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=nullable)
