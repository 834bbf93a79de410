"""Files of other schemas."""

from __future__ import annotations

from alembic import command
from florin_server.store.migrations import config
from sqlalchemy import create_engine


def moved(path, revision: str, *, down: bool = False) -> None:
    """Brings a file to a revision."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        (command.downgrade if down else command.upgrade)(config(connection), revision)
    engine.dispose()
