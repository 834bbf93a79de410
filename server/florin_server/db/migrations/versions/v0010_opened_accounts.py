"""Accounts opened for receivers, and the earliest block of a transaction."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0010"
down_revision = "v0009"
branch_labels = None
depends_on = None

_DAY_US = 86_400 * 1_000_000
# the earlier form of both, as rows of `installation`
_QUEUED, _DONE, _COUNT = "to open ", "account ", "opened "


def upgrade() -> None:
    """Add the tables and the column, and move the earlier data."""
    op.add_column(
        "chain_tx", sa.Column("since_block", sa.BigInteger(), autoincrement=False, nullable=True)
    )
    op.create_table(
        "account_to_open",
        sa.Column("asset", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("merchant_id", sa.Text(), nullable=True),
        sa.Column("at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("asset", "account", name=op.f("pk_account_to_open")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_account_to_open_chain_id", "account_to_open", ["chain_id", "at_us"])
    op.create_table(
        "opened_account",
        sa.Column("asset", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("merchant_id", sa.Text(), nullable=True),
        sa.Column("day", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("opened_by", sa.Text(), nullable=True),
        sa.Column("at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("asset", "account", name=op.f("pk_opened_account")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_opened_account_chain_id", "opened_account", ["chain_id", "day", "merchant_id"]
    )
    op.create_index("ix_opened_account_opened_by", "opened_account", ["opened_by"])
    _move()


def downgrade() -> None:
    """Drop the tables and the column; move their data back to `installation`."""
    bind = op.get_bind()
    keep = sa.text("INSERT INTO installation (name, value) VALUES (:name, :value)")
    for asset, account, day in bind.execute(
        sa.text("SELECT asset, account, day FROM opened_account")
    ).all():
        bind.execute(keep, {"name": f"{_DONE}{asset} {account}", "value": str(day)})
    for chain_id, asset, account in bind.execute(
        sa.text("SELECT chain_id, asset, account FROM account_to_open")
    ).all():
        bind.execute(keep, {"name": f"{_QUEUED}{chain_id} {asset} {account}", "value": ""})
    op.drop_table("opened_account")
    op.drop_table("account_to_open")
    op.drop_column("chain_tx", "since_block")


def _move() -> None:
    """Move the data; the merchant was not stored, and a day's count is now that of its rows."""
    bind = op.get_bind()
    queue = sa.text(
        "INSERT INTO account_to_open (asset, account, chain_id, at_us)"
        " VALUES (:asset, :account, :chain_id, 0)"
    )
    opened = sa.text(
        "INSERT INTO opened_account (asset, account, chain_id, day, at_us)"
        " VALUES (:asset, :account, :chain_id, :day, :at_us)"
    )
    for name, value in bind.execute(sa.text("SELECT name, value FROM installation")).all():
        words = name.split(" ")
        if name.startswith(_QUEUED) and len(words) == 5:
            _, _, chain_id, asset, account = words
            bind.execute(queue, {"asset": asset, "account": account, "chain_id": chain_id})
        elif name.startswith(_DONE) and len(words) == 3:
            _, asset, account = words
            row = {"asset": asset, "account": account, "chain_id": account.rpartition(":")[0]}
            bind.execute(opened, row | {"day": int(value), "at_us": int(value) * _DAY_US})
        elif not name.startswith(_COUNT):
            continue
        bind.execute(sa.text("DELETE FROM installation WHERE name = :name"), {"name": name})
