"""Processes of the release before may still run on the store: they are known, and waited for."""

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
    """Adds the columns, and marks the store as one that older processes may have open."""
    bind = op.get_bind()
    # databases get the stamp's table before the first migration runs
    if _COMPATIBLE_FROM not in {one["name"] for one in sa.inspect(bind).get_columns(_STAMP)}:
        op.add_column(
            _STAMP, sa.Column(_COMPATIBLE_FROM, sa.String(32), server_default="", nullable=False)
        )
    op.execute(f"UPDATE {_STAMP} SET {_COMPATIBLE_FROM} = 'v0025'")  # noqa: S608
    op.add_column("process", sa.Column("revision", sa.Text(), server_default="", nullable=False))
    op.execute(
        "INSERT INTO installation (name, value) VALUES ('older_releases', "  # noqa: S608
        f"'v0025 ' || {_NOW_US[bind.dialect.name]})"
    )


def downgrade() -> None:
    """Takes them away."""
    op.execute("DELETE FROM installation WHERE name IN ('older_releases', 'filling')")
    op.drop_column("process", "revision")
    op.drop_column(_STAMP, _COMPATIBLE_FROM)
