"""Brings a file to the present schema: a new one at once, an older one by migration."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

from sqlalchemy import Dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from florin_server.store.engine.query import SQLITE, StoreError
from florin_server.store.tables.tables import METADATA

# the newest migration; written into a new file, which then needs none
HEAD = "v0024"
STAMP = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)


def prepare(path: Path) -> None:
    """Makes the tables of a new file, which only its owner may read, or migrates them.

    StoreError for a file that is not ours or was written by a newer Florin; it stays as it is.
    """
    path.touch(mode=0o600)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        found = version(raw)
        if found == HEAD:
            return
        if found is None:
            raw.execute("PRAGMA journal_mode=WAL")
            _create(raw)
            return
    # Alembic is slow to load and almost never needed
    from florin_server.store.migrations import upgrade  # noqa: PLC0415

    upgrade(path, found)


def require(path: Path) -> None:
    """StoreError, with what to do, for a file that would have to be made or migrated first."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as raw:
        found = version(raw)
    if found != HEAD:
        raise not_present(str(path), found)


def not_present(store: str, version: str | None) -> StoreError:
    """Return why a store cannot be read as it is, with what to do."""
    if version is None:
        return StoreError(f"{store} has no tables yet: the first start of Florin makes them")
    found = f"{store} has schema {version}, and this Florin reads {HEAD}"
    if version > HEAD:
        return StoreError(f"{found}: a newer Florin wrote it, use that release")
    return StoreError(f"{found}: a migration is due, run `florin migrate` (back up before)")


@cache
def definitions(dialect: Dialect = SQLITE) -> tuple[str, ...]:
    """The statements that make all tables and indexes."""
    made: list[str] = []
    for table in METADATA.sorted_tables:
        made.append(str(CreateTable(table).compile(dialect=dialect)))
        indexes = sorted(table.indexes, key=lambda found: str(found.name))
        made += [str(CreateIndex(index).compile(dialect=dialect)) for index in indexes]
    return tuple(made)


def version(raw: sqlite3.Connection) -> str | None:
    """The version of a file's schema, None if it is empty; StoreError if it is not ours."""
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


def _create(raw: sqlite3.Connection) -> None:
    raw.execute("BEGIN IMMEDIATE")
    for statement in definitions():
        raw.execute(statement)
    raw.execute(STAMP)
    raw.execute("INSERT INTO alembic_version VALUES (?)", (HEAD,))
    raw.execute("COMMIT")
