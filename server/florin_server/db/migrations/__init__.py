"""Schema changes, in order, by Alembic; loaded only for a file older than this Florin."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

from florin_server.db.engine.query import StoreError

# later migrations read no rows, so that their statements are known without a store
OFFLINE_FROM: Final = "v0020"


def config(connection: Connection) -> Config:
    """Return the configuration for Alembic's commands in the connection's open transaction."""
    created_config = _create_config()
    created_config.attributes["connection"] = connection
    return created_config


def _create_config(buffer: io.StringIO | None = None) -> Config:
    created_config = Config(output_buffer=buffer)
    created_config.set_main_option("script_location", str(Path(__file__).parent))
    return created_config


def list_offline_statements(dialect_name: str, version: str, to: str) -> list[str]:
    """Return the statements that migrate a store from a version, without a connection.

    `version` must not be older than `OFFLINE_FROM`.
    """
    buffer = io.StringIO()
    offline_config = _create_config(buffer)
    offline_config.attributes["dialect_name"] = dialect_name
    command.upgrade(offline_config, f"{version}:{to}", sql=True)
    # Alembic writes a line of comment before each migration
    lines = (line for line in buffer.getvalue().splitlines() if not line.startswith("--"))
    parts = (part.strip() for part in "\n".join(lines).split(";\n"))
    return [part for part in parts if part]


def list_revisions() -> set[str]:
    """Return the existing versions."""
    scripts = ScriptDirectory.from_config(_create_config())
    return {script.revision for script in scripts.walk_revisions()}


def upgrade(path: Path, version: str, tell: Callable[[str], None] | None = None) -> None:
    """Migrate a file from a version to the newest, all or nothing.

    Raise StoreError if the version does not exist here: then a newer Florin wrote the file. `tell`
    is called with each statement that runs.
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
        if version and version not in list_revisions():
            raise StoreError(f"the store has schema {version}, which a newer Florin made")
        command.upgrade(config(connection), "head")


def listen(engine: Engine, tell: Callable[[str], None]) -> None:
    """Call `tell` with each statement that changes something."""

    def before(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.lstrip().upper().startswith(("SELECT", "PRAGMA", "LOCK")):
            tell(statement)

    event.listen(engine, "before_cursor_execute", before)


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
