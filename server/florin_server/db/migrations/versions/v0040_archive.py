"""The archive: its files, and the payments in them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op

from florin_server.db.engine.columns import U256

revision = "v0040"
down_revision = "v0039"
branch_labels = None
depends_on = None

_ITEM, _BEFORE = "chain_tx_item", "chain_tx_item_before"
_ITEM_COLUMNS = "tx_id, n, payment_id, payout_id, kind, gas"
_PAYMENT_KEY = "fk_chain_tx_item_payment_id"


def upgrade() -> None:
    """Add the tables, and drop the foreign key to payments, which can be archived."""
    op.create_table(
        "archive_file",
        sa.Column("n", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("payments", sa.BigInteger(), nullable=False),
        sa.Column("first_id", sa.Text(), nullable=False),
        sa.Column("last_id", sa.Text(), nullable=False),
        sa.Column("written_at_us", sa.BigInteger(), nullable=False),
        sa.Column("removed_at_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("n", name=op.f("pk_archive_file")),
    )
    unremoved = sa.text("removed_at_us IS NULL")
    op.create_index(
        "ix_archive_file_unremoved",
        "archive_file",
        ["n"],
        sqlite_where=unremoved,
        postgresql_where=unremoved,
    )
    op.create_table(
        "archived_payment",
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("file_n", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("partner_id", sa.Text(), nullable=False),
        sa.Column("merchant_id", sa.Text(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("value", U256(), nullable=False),
        sa.PrimaryKeyConstraint("payment_id", name=op.f("pk_archived_payment")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_archived_payment_file", "archived_payment", ["file_n"])
    if context.get_context().dialect.name == "sqlite":
        _recreate_items("tx_id", "payout_id")
    else:
        # partitions have no foreign keys
        op.execute(f"ALTER TABLE {_ITEM} DROP CONSTRAINT IF EXISTS {_PAYMENT_KEY}")


def downgrade() -> None:
    """Drop the tables, and add the foreign key."""
    if context.get_context().dialect.name == "sqlite":
        _recreate_items("tx_id", "payment_id", "payout_id")
    else:
        op.create_foreign_key(_PAYMENT_KEY, _ITEM, "payment", ["payment_id"], ["id"])
    op.drop_table("archived_payment")
    op.drop_table("archive_file")


def _recreate_items(*foreign_ids: str) -> None:
    # SQLite cannot drop or add a constraint of a table
    op.execute(f"CREATE TABLE {_BEFORE} AS SELECT * FROM {_ITEM}")  # noqa: S608
    op.drop_table(_ITEM)
    op.create_table(
        _ITEM,
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
        *(_create_foreign_key(column) for column in foreign_ids),
        sqlite_with_rowid=False,
    )
    op.execute(
        f"INSERT INTO {_ITEM} ({_ITEM_COLUMNS}) "  # noqa: S608
        f"SELECT {_ITEM_COLUMNS} FROM {_BEFORE}"
    )
    op.drop_table(_BEFORE)


def _create_foreign_key(column: str) -> sa.ForeignKeyConstraint:
    table = {"tx_id": "chain_tx", "payment_id": "payment", "payout_id": "payout"}[column]
    return sa.ForeignKeyConstraint([column], [f"{table}.id"], name=op.f(f"fk_{_ITEM}_{column}"))
