"""The reference of an option's settlement event, and its earliest possible block."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0007"
down_revision = "v0006"
branch_labels = None
depends_on = None

_KNOWN = sa.text("reference IS NOT NULL")
# the block of the first issue; for options without a build it was not stored
_HEAD = """
    UPDATE payment_option SET head = (
        SELECT min(issued.head) FROM issued
        WHERE issued.payment_id = payment_option.payment_id
        AND issued.option_id = payment_option.id
    )
"""


def upgrade() -> None:
    """Add the columns, filled from existing data; drop the columns that they replace."""
    op.add_column("payment_option", sa.Column("reference", sa.Text(), nullable=True))
    op.add_column("payment_option", sa.Column("head", sa.BigInteger(), nullable=True))
    reference = "json_extract(terms, '$.ref')"
    if op.get_bind().dialect.name != "sqlite":
        reference = "CAST(terms AS jsonb) ->> 'ref'"
    op.execute(
        f"UPDATE payment_option SET reference = {reference} "  # noqa: S608
        "WHERE chain_id LIKE 'eip155:%'"
    )
    op.execute(_HEAD)
    _index("payment_option")
    op.drop_index("ix_issued_reference", "issued")
    op.drop_column("issued", "reference")


def downgrade() -> None:
    """Drop the columns; restore the reference of issued builds."""
    op.add_column("issued", sa.Column("reference", sa.Text(), nullable=True))
    op.execute(
        "UPDATE issued SET reference = (SELECT payment_option.reference FROM payment_option "
        "WHERE payment_option.payment_id = issued.payment_id "
        "AND payment_option.id = issued.option_id)"
    )
    _index("issued")
    op.drop_index("ix_payment_option_reference", "payment_option")
    op.drop_column("payment_option", "head")
    op.drop_column("payment_option", "reference")


def _index(table: str) -> None:
    op.create_index(
        f"ix_{table}_reference",
        table,
        ["reference"],
        sqlite_where=_KNOWN,
        postgresql_where=_KNOWN,
    )
