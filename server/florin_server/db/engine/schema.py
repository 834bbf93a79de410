"""Brings a file to the current schema: a new file directly, an older file by migration."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

from sqlalchemy import Dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from florin_server.db.engine.query import SQLITE, StoreError
from florin_server.db.tables.tables import METADATA

# the newest migration; a new file is stamped with it, so that it needs no migration
HEAD = "v0041"
# the oldest schema whose Florin can work on this one while newer processes do; a migration that
# removes what that Florin uses raises it
COMPATIBLE_FROM = "v0026"
VERSION_TABLE = (
    "CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL, "
    "compatible_from VARCHAR(32) DEFAULT '' NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
_STAMPED = "INSERT INTO alembic_version (version_num, compatible_from) VALUES ('{}', '{}')"


def prepare(path: Path) -> None:
    """Create the tables of a new file, readable only by its owner, or migrate the file.

    Raise StoreError, without changes, for a file that is not Florin's, or that a newer Florin made
    unusable.
    """
    path.touch(mode=0o600)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        version = read_version(raw)
        if version is not None and is_usable(version, compatible_from(raw)):
            return
        if version is None:
            raw.execute("PRAGMA journal_mode=WAL")
            _create(raw)
            return
    # Alembic loads slowly and is almost never needed
    from florin_server.db.migrations import upgrade  # noqa: PLC0415

    upgrade(path, version)


def require_current(path: Path) -> None:
    """Raise StoreError, with what to do, if a file must be created or migrated first."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as raw:
        version = read_version(raw)
        usable = version is not None and is_usable(version, compatible_from(raw))
    if not usable:
        raise to_schema_error(str(path), version)


def is_usable(version: str, compatible_from: str) -> bool:
    """Return whether this Florin works on a schema: its own, or a newer one that allows it."""
    return version == HEAD or bool(version > HEAD and compatible_from and compatible_from <= HEAD)


def stamped() -> str:
    """Return the statement that stamps new tables with the current schema."""
    return _STAMPED.format(HEAD, COMPATIBLE_FROM)


def to_schema_error(store: str, version: str | None) -> StoreError:
    """Return why a store cannot be read in its current state, with what to do."""
    if version is None:
        return StoreError(f"{store} has no tables yet: start Florin once to create them")
    result = f"{store} has schema {version}, but this Florin reads {HEAD}"
    if version > HEAD:
        return StoreError(f"{result}: a newer Florin wrote it; use that release")
    return StoreError(f"{result}: back it up, then run `florin migrate`")


@cache
def list_definitions(dialect: Dialect = SQLITE) -> tuple[str, ...]:
    """Return the statements that create all tables and indexes."""
    definitions: list[str] = []
    for table in METADATA.sorted_tables:
        definitions.append(str(CreateTable(table).compile(dialect=dialect)))
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        definitions += [str(CreateIndex(index).compile(dialect=dialect)) for index in indexes]
    return tuple(definitions)


def read_version(raw: sqlite3.Connection) -> str | None:
    """Return a file's schema version, None if it is empty; StoreError if it is not Florin's."""
    try:
        tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master")}
    except sqlite3.DatabaseError as error:
        raise StoreError(f"this file is not a database: {error}") from error
    if not tables:
        return None
    if "alembic_version" not in tables:
        raise StoreError("this file is a database, but not one of Florin's")
    rows = raw.execute("SELECT version_num FROM alembic_version").fetchall()
    return str(rows[0][0]) if rows else ""


def compatible_from(raw: sqlite3.Connection) -> str:
    """Return the oldest schema whose Florin can work on a file; empty before v0025."""
    names = {row[1] for row in raw.execute("PRAGMA table_info(alembic_version)")}
    if "compatible_from" not in names:
        return ""
    rows = raw.execute("SELECT compatible_from FROM alembic_version").fetchall()
    return str(rows[0][0]) if rows else ""


def _create(raw: sqlite3.Connection) -> None:
    raw.execute("BEGIN IMMEDIATE")
    for statement in list_definitions():
        raw.execute(statement)
    raw.execute(VERSION_TABLE)
    raw.execute(stamped())
    raw.execute("COMMIT")
