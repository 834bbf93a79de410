"""The audit log, notes on payments, and the last use of API keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0029"
down_revision = "v0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables; actions before this version are not in the log."""
    op.create_table(
        "audit_entry",
        sa.Column("at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        *(
            sa.Column(name, sa.Text(), nullable=False)
            for name in (
                "actor_kind",
                "actor_id",
                "channel",
                "peer",
                "request_id",
                "action",
                "object_kind",
                "object_id",
            )
        ),
        sa.Column("partner_id", sa.Text(), nullable=True),
        sa.Column("live", sa.Boolean(), nullable=True),
        sa.Column("changes", sa.Text(), nullable=True),
        sa.Column("count", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("at_us", "id", name=op.f("pk_audit_entry")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_audit_entry_partner", "audit_entry", ["partner_id", "live", "at_us", "id"])
    op.create_index("ix_audit_entry_object", "audit_entry", ["object_id", "at_us", "id"])
    op.create_table(
        "payment_note",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("deleted_at_us", sa.BigInteger(), autoincrement=False, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payment_note")),
    )
    op.create_index("ix_payment_note_payment_id", "payment_note", ["payment_id", "created_at_us"])
    op.create_index("ix_payment_note_deleted_at_us", "payment_note", ["deleted_at_us"])
    op.create_table(
        "api_key_use",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("last_used_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_api_key_use")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop the tables with their content."""
    op.drop_table("api_key_use")
    op.drop_table("payment_note")
    op.drop_table("audit_entry")
