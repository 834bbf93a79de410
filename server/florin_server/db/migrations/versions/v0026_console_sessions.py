"""Sign-outs of consoles in a table of their own; they were idempotency keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0026"
down_revision = "v0025"
branch_labels = None
depends_on = None

_STAMP = "UPDATE alembic_version SET compatible_from = '{}'"
# the keys stay until they expire: migrations only add
_COPY = """
INSERT INTO console_session (session_id, ended_at_us, expires_at_us)
SELECT key, created_at_us, expires_at_us FROM idempotency WHERE scope = 'console session'
"""
# sign-outs stay valid on the older schema
_COPY_BACK = """
INSERT INTO idempotency (scope, key, fingerprint, body, created_at_us, expires_at_us)
SELECT 'console session', session_id, {0}, {0}, ended_at_us, expires_at_us FROM console_session
WHERE ended_at_us IS NOT NULL
ON CONFLICT DO NOTHING
"""
_EMPTY = {"postgresql": "''::bytea", "sqlite": "x''"}


def upgrade() -> None:
    """Add the table with the sign-outs so far."""
    op.create_table(
        "console_session",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("ended_at_us", sa.BigInteger(), autoincrement=False, nullable=True),
        sa.Column("expires_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_console_session")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_console_session_expires_at_us", "console_session", ["expires_at_us"])
    op.execute(_COPY)
    op.execute(_STAMP.format("v0026"))


def downgrade() -> None:
    """Make the sign-outs idempotency keys again, and drop the table."""
    op.execute(_STAMP.format("v0025"))
    op.execute(_COPY_BACK.format(_EMPTY[op.get_bind().dialect.name]))
    op.drop_index("ix_console_session_expires_at_us", table_name="console_session")
    op.drop_table("console_session")
