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
HEAD = "v0025"
# the oldest schema whose Florin may work on this one, also while newer ones do; each migration that
# takes away what that one uses raises it
COMPATIBLE_FROM = "v0025"
STAMP = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
    "compatible_from VARCHAR(32) DEFAULT '' NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
_STAMPED = "INSERT INTO alembic_version (version_num, compatible_from) VALUES ('{}', '{}')"


def prepare(path: Path) -> None:
    """Makes the tables of a new file, which only its owner may read, or migrates them.

    StoreError for a file that is not ours, or that a newer Florin wrote and this one cannot use; it
    stays as it is.
    """
    path.touch(mode=0o600)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        found = version(raw)
        if found is not None and is_usable(found, compatible_from(raw)):
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
        usable = found is not None and is_usable(found, compatible_from(raw))
    if not usable:
        raise not_present(str(path), found)


def is_usable(version: str, compatible_from: str) -> bool:
    """Return whether this Florin works on a schema: its own, or a newer one that allows it."""
    return version == HEAD or bool(version > HEAD and compatible_from and compatible_from <= HEAD)


def stamped() -> str:
    """Return the statement that stamps new tables with the present schema."""
    return _STAMPED.format(HEAD, COMPATIBLE_FROM)


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


def compatible_from(raw: sqlite3.Connection) -> str:
    """Return the oldest schema whose Florin may work on a file; empty before v0025."""
    names = {row[1] for row in raw.execute("PRAGMA table_info(alembic_version)")}
    if "compatible_from" not in names:
        return ""
    rows = raw.execute("SELECT compatible_from FROM alembic_version").fetchall()
    return str(rows[0][0]) if rows else ""


def _create(raw: sqlite3.Connection) -> None:
    raw.execute("BEGIN IMMEDIATE")
    for statement in definitions():
        raw.execute(statement)
    raw.execute(STAMP)
    raw.execute(stamped())
    raw.execute("COMMIT")
