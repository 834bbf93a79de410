"""The schema version of a store, and its migration to the current version."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from florin_server.db.engine import schema
from florin_server.db.engine.query import POSTGRESQL
from florin_server.db.engine.sqlite import FileLock
from florin_server.db.engine.where import DatabaseConfig


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The schema version of a store, None if it has none, and the version this Florin wants.

    `usable` is true if this Florin works on it: it is the wanted version, or a newer version that
    allows it.
    """

    version: str | None
    usable: bool = False
    target_version: str = schema.HEAD

    @property
    def is_newer(self) -> bool:
        """Return whether a newer Florin made it, so that it may hold unknown data."""
        return self.version is not None and self.version > self.target_version


def get_status(store: Path | DatabaseConfig) -> SchemaStatus:
    """Return a store's schema status, without changes; raise StoreError if it is not Florin's."""
    if isinstance(store, DatabaseConfig):
        from florin_server.db.engine.postgres import schema as tables  # noqa: PLC0415

        return SchemaStatus(*asyncio.run(tables.read_stamp(store)))
    if not store.exists():
        return SchemaStatus(None)
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as raw:
        version = schema.read_version(raw)
        usable = bool(version) and schema.is_usable(str(version), schema.compatible_from(raw))
        return SchemaStatus(version, usable)


def upgrade(store: Path | DatabaseConfig) -> None:
    """Migrate a store to the current schema; StoreError if a newer Florin made it unusable."""
    if isinstance(store, DatabaseConfig):
        from florin_server.db.engine.postgres import schema as tables  # noqa: PLC0415

        asyncio.run(tables.prepare(store))
        return
    lock = FileLock(store.with_name(store.name + ".lock"))
    try:
        schema.prepare(store)
    finally:
        lock.release()


def list_statements(store: Path | DatabaseConfig) -> list[str]:
    """Return the statements of the migration; on SQLite they run on a copy.

    On PostgreSQL, those of a schema before 0.3 run, lock what they change, and are rolled back.
    """
    status = get_status(store)
    if status.usable:
        return []
    if isinstance(store, DatabaseConfig):
        if status.version is None:
            return list(schema.list_definitions(POSTGRESQL))
        from florin_server.db.migrations.postgres import preview as rolled_back  # noqa: PLC0415

        return asyncio.run(rolled_back(store))
    if status.version is None:
        return list(schema.list_definitions())
    from florin_server.db.migrations import upgrade as migrate  # noqa: PLC0415

    statements: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / store.name
        with closing(sqlite3.connect(store)) as raw, closing(sqlite3.connect(copy)) as other:
            raw.backup(other)
        migrate(copy, status.version, statements.append)
    return statements
