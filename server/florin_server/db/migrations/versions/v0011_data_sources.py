"""The sources of data about buyers, and forms that need no row.

Earlier data has no source, and never counts: its source is unknown if it is unproven, its app is
unknown if it is proven. It is kept for exports until it expires or its payment is confirmed, and
buyers must submit it again. Open forms become invalid; wallets request new forms.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0011"
down_revision = "v0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the source to the key, and the app; drop the tokens."""
    op.drop_table("capture_token")
    _put_aside()
    _make_collected(
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("app", sa.Text(), nullable=False),
        key=("payment_id", "account", "source"),
    )
    op.execute(
        "INSERT INTO collected_data (payment_id, account, source, app, "
        "key_id, nonce, ciphertext, created_at_us, kept_until_us, proven) "
        "SELECT payment_id, account, '', '', "
        "key_id, nonce, ciphertext, created_at_us, kept_until_us, proven FROM collected_before"
    )
    op.drop_table("collected_before")


def downgrade() -> None:
    """Drop the columns, with all data that has a source, as its encryption includes the source."""
    _put_aside()
    _make_collected(key=("payment_id", "account"))
    op.execute(
        "INSERT INTO collected_data (payment_id, account, "
        "key_id, nonce, ciphertext, created_at_us, kept_until_us, proven) "
        "SELECT payment_id, account, "
        "key_id, nonce, ciphertext, created_at_us, kept_until_us, proven "
        "FROM collected_before WHERE source = ''"
    )
    op.drop_table("collected_before")
    op.create_table(
        "capture_token",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("accounts", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("used", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_capture_token")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_capture_token_payment_id", "capture_token", ["payment_id"])
    op.create_index("ix_capture_token_expires_at", "capture_token", ["expires_at"])


def _put_aside() -> None:
    """Copy the table without constraints: no engine can change a primary key in place."""
    op.execute("CREATE TABLE collected_before AS SELECT * FROM collected_data")
    op.drop_table("collected_data")


def _make_collected(*more: sa.Column[str], key: tuple[str, ...]) -> None:
    op.create_table(
        "collected_data",
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        *more,
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("ciphertext", sa.LargeBinary(), nullable=False),
        sa.Column("created_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kept_until_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("proven", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint(*key, name=op.f("pk_collected_data")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_collected_data_account", "collected_data", ["account"])
    op.create_index("ix_collected_data_kept_until_us", "collected_data", ["kept_until_us"])
