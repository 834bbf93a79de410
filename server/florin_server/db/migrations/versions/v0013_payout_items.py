"""A separate column for a transaction's payouts, and foreign keys to payments and payouts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0013"
down_revision = "v0012"
branch_labels = None
depends_on = None

_BEFORE = "chain_tx_item_before"


def upgrade() -> None:
    """Recreate the table; an item with the id of a payout becomes a payout."""
    _put_aside()
    op.create_table(
        "chain_tx_item",
        sa.Column("tx_id", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=True),
        sa.Column("payout_id", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=True),
        sa.Column("gas", sa.BigInteger(), autoincrement=False, server_default="0", nullable=False),
        sa.CheckConstraint(
            "(payment_id IS NULL) <> (payout_id IS NULL)", name=op.f("ck_chain_tx_item_one_item")
        ),
        sa.PrimaryKeyConstraint("tx_id", "n", name=op.f("pk_chain_tx_item")),
        _of("tx_id", "chain_tx"),
        _of("payment_id", "payment"),
        _of("payout_id", "payout"),
        sqlite_with_rowid=False,
    )
    paid_out = "payment_id IN (SELECT id FROM payout)"
    _take_back(
        f"CASE WHEN {paid_out} THEN NULL ELSE payment_id END, "
        f"CASE WHEN {paid_out} THEN payment_id END",
        "payment_id, payout_id",
    )


def downgrade() -> None:
    """Merge both columns again."""
    _put_aside()
    op.create_table(
        "chain_tx_item",
        sa.Column("tx_id", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=True),
        sa.Column("gas", sa.BigInteger(), autoincrement=False, server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("tx_id", "n", name=op.f("pk_chain_tx_item")),
        sqlite_with_rowid=False,
    )
    _take_back("coalesce(payment_id, payout_id)", "payment_id")


def _put_aside() -> None:
    # SQLite cannot add a constraint to a table
    op.execute(f"CREATE TABLE {_BEFORE} AS SELECT * FROM chain_tx_item")  # noqa: S608
    op.drop_table("chain_tx_item")


def _take_back(values: str, columns: str) -> None:
    op.execute(
        f"INSERT INTO chain_tx_item (tx_id, n, {columns}, kind, gas) "  # noqa: S608
        f"SELECT tx_id, n, {values}, kind, gas FROM {_BEFORE}"
    )
    op.drop_table(_BEFORE)


def _of(column: str, table: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_chain_tx_item_{column}")
    return sa.ForeignKeyConstraint([column], [f"{table}.id"], name=name)
