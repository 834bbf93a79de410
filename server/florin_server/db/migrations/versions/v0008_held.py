"""Money of blocked payers, held until the operator decides."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "v0008"
down_revision = "v0007"
branch_labels = None
depends_on = None

_CONFIRM = "payment_id, option_id, outputs, digest, at_us, chain_id, from_block, state, retry_at_us"
_STATES = "'waiting', 'submitted', 'held', 'done'"
_STATES_BEFORE = "'waiting', 'submitted', 'done'"


def upgrade() -> None:
    """Add the table, the state, and the column."""
    _make_held_money()
    _states_of_confirm(_STATES)
    op.add_column("payout", sa.Column("held_id", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop them, with their data; payments with held money wait for evidence again."""
    op.drop_column("payout", "held_id")
    op.execute("UPDATE confirm SET state = 'submitted' WHERE state = 'held'")
    _states_of_confirm(_STATES_BEFORE)
    op.drop_table("held_money")


def _text(name: str, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=null)


def _number(name: str, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=null)


def _amount(name: str, *, null: bool = False) -> sa.Column[Any]:
    """Return a column for an unsigned 256-bit number."""
    digits = sa.Text().with_variant(sa.Numeric(78, 0), "postgresql")
    return sa.Column(name, digits, nullable=null)


def _make_held_money() -> None:
    op.create_table(
        "held_money",
        _text("id"),
        _text("payment_id"),
        _text("chain_id"),
        _text("asset"),
        _text("payer"),
        _amount("value"),
        _amount("held"),
        _amount("fee"),
        _amount("settled_value", null=True),
        _text("tx_hash"),
        _text("event"),
        sa.Column("late", sa.Boolean(), nullable=False),
        _text("why"),
        _number("since_us"),
        _text("state"),
        _text("note", null=True),
        _number("decided_at_us", null=True),
        _text("payout_id", null=True),
        sa.Column("even_if_blocked", sa.Boolean(), nullable=False),
        sa.CheckConstraint(
            "state IN ('held', 'released', 'returned', 'kept', 'undone')",
            name=op.f("ck_held_money_state"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_held_money")),
    )
    op.create_index(
        "uq_held_money_payment_id_event", "held_money", ["payment_id", "event"], unique=True
    )
    op.create_index("ix_held_money_chain_id_tx_hash", "held_money", ["chain_id", "tx_hash"])
    text_clause = sa.text("state IN ('held', 'kept', 'undone')")
    op.create_index(
        "ix_held_money_open",
        "held_money",
        ["chain_id", "state"],
        sqlite_where=text_clause,
        postgresql_where=text_clause,
    )


def _states_of_confirm(states: str) -> None:
    """Restrict a confirm to these states; SQLite cannot change a constraint in place."""
    allowed = f"state IN ({states})"
    if op.get_bind().dialect.name != "sqlite":
        op.drop_constraint(op.f("ck_confirm_state"), "confirm")
        op.create_check_constraint(op.f("ck_confirm_state"), "confirm", allowed)
        return
    op.drop_index("ix_confirm_unsettled", "confirm")
    op.execute("CREATE TABLE confirm_before AS SELECT * FROM confirm")
    op.drop_table("confirm")
    op.create_table(
        "confirm",
        _text("payment_id"),
        _text("option_id"),
        _text("outputs"),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        _number("at_us"),
        _text("chain_id", null=True),
        _number("from_block", null=True),
        _text("state"),
        _number("retry_at_us"),
        sa.CheckConstraint(allowed, name=op.f("ck_confirm_state")),
        sa.PrimaryKeyConstraint("payment_id", name=op.f("pk_confirm")),
        sqlite_with_rowid=False,
    )
    op.execute(f"INSERT INTO confirm SELECT {_CONFIRM} FROM confirm_before")  # noqa: S608
    op.drop_table("confirm_before")
    unsettled = sa.text("state <> 'done'")
    op.create_index(
        "ix_confirm_unsettled",
        "confirm",
        ["chain_id", "state", "at_us"],
        sqlite_where=unsettled,
        postgresql_where=unsettled,
    )
