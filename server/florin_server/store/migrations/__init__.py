"""Schema changes, in order, by Alembic; loaded only for a file that is older than this Florin."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

from florin_server.store.engine.query import StoreError


def config(connection: Connection) -> Config:
    """What Alembic's commands need; they run inside the connection's open transaction."""
    made = Config()
    made.set_main_option("script_location", str(Path(__file__).parent))
    made.attributes["connection"] = connection
    return made


def known(settings: Config) -> set[str]:
    """The versions that there are."""
    return {found.revision for found in ScriptDirectory.from_config(settings).walk_revisions()}


def upgrade(path: Path, version: str, tell: Callable[[str], None] | None = None) -> None:
    """Brings a file from a version to the newest one, all or nothing.

    StoreError if there is no such version here, which means that a newer Florin wrote the file.
    `tell` is given the statements that run.
    """
    # the driver itself would commit in between
    engine = create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(path, isolation_level=None),
        poolclass=NullPool,
    )
    event.listen(engine, "begin", _begin)
    if tell is not None:
        listen(engine, tell)
    with engine.begin() as connection:
        settings = config(connection)
        if version and version not in known(settings):
            raise StoreError(f"the store has schema {version}, which a newer Florin made")
        command.upgrade(settings, "head")


def listen(engine: Engine, tell: Callable[[str], None]) -> None:
    """Tells the statements that change something."""

    def before(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.lstrip().upper().startswith(("SELECT", "PRAGMA", "LOCK")):
            tell(statement)

    event.listen(engine, "before_cursor_execute", before)


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
