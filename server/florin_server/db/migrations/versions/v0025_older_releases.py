"""Processes of the earlier release may still run on the store: record and wait for them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0025"
down_revision = "v0024"
branch_labels = None
depends_on = None

_STAMP, _COMPATIBLE_FROM = "alembic_version", "compatible_from"
# microseconds since the Unix epoch
_NOW_US = {
    "postgresql": "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text",
    "sqlite": "CAST(CAST(strftime('%s', 'now') AS INTEGER) * 1000000 AS TEXT)",
}


def upgrade() -> None:
    """Add the columns, and record that older processes may have the store open."""
    dialect = op.get_context().dialect.name
    # databases get the stamp's table before the first migration runs
    if dialect == "postgresql":
        op.execute(
            f"ALTER TABLE {_STAMP} ADD COLUMN IF NOT EXISTS "
            f"{_COMPATIBLE_FROM} VARCHAR(32) DEFAULT '' NOT NULL"
        )
    elif not _has_column():
        op.add_column(
            _STAMP, sa.Column(_COMPATIBLE_FROM, sa.String(32), server_default="", nullable=False)
        )
    op.execute(f"UPDATE {_STAMP} SET {_COMPATIBLE_FROM} = 'v0025'")  # noqa: S608
    op.add_column("process", sa.Column("revision", sa.Text(), server_default="", nullable=False))
    op.execute(
        "INSERT INTO installation (name, value) VALUES ('older_releases', "  # noqa: S608
        f"'v0025 ' || {_NOW_US[dialect]})"
    )


def _has_column() -> bool:
    columns = sa.inspect(op.get_bind()).get_columns(_STAMP)
    return _COMPATIBLE_FROM in {column["name"] for column in columns}


def downgrade() -> None:
    """Drop the columns and the records."""
    op.execute("DELETE FROM installation WHERE name IN ('older_releases', 'filling')")
    op.drop_column("process", "revision")
    op.drop_column(_STAMP, _COMPATIBLE_FROM)
