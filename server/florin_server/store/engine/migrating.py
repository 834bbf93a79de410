"""The schema of a store: which one it has, and what would bring it to the present one."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from florin_server.store.engine import schema
from florin_server.store.engine.query import POSTGRESQL
from florin_server.store.engine.sqlite import FileLock
from florin_server.store.engine.where import Database


@dataclass(frozen=True, slots=True)
class Standing:
    """The version of a store's schema, None if it has none yet, and the one this Florin wants.

    `usable` if this Florin works on it: it is the wanted one, or a newer one that allows it.
    """

    version: str | None
    usable: bool = False
    wanted: str = schema.HEAD

    @property
    def is_newer(self) -> bool:
        """Whether a newer Florin made it: it may hold what this one does not know."""
        return self.version is not None and self.version > self.wanted


def standing(store: Path | Database) -> Standing:
    """How a store stands; nothing is changed. StoreError for one that is not ours."""
    if isinstance(store, Database):
        from florin_server.store.engine.postgres import schema as tables  # noqa: PLC0415

        return Standing(*asyncio.run(tables.read_stamp(store)))
    if not store.exists():
        return Standing(None)
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as raw:
        version = schema.version(raw)
        usable = bool(version) and schema.is_usable(str(version), schema.compatible_from(raw))
        return Standing(version, usable)


def upgrade(store: Path | Database) -> None:
    """Brings a store to the present schema; StoreError if a newer Florin made that unusable."""
    if isinstance(store, Database):
        from florin_server.store.engine.postgres import schema as tables  # noqa: PLC0415

        asyncio.run(tables.prepare(store))
        return
    lock = FileLock(store.with_name(store.name + ".lock"))
    try:
        schema.prepare(store)
    finally:
        lock.release()


def preview(store: Path | Database) -> list[str]:
    """The statements that would do it; they run on a copy, or are rolled back.

    On PostgreSQL what they change is locked meanwhile.
    """
    found = standing(store)
    if found.usable:
        return []
    if isinstance(store, Database):
        if found.version is None:
            return list(schema.definitions(POSTGRESQL))
        from florin_server.store.migrations.postgres import preview as rolled_back  # noqa: PLC0415

        return asyncio.run(rolled_back(store))
    if found.version is None:
        return list(schema.definitions())
    from florin_server.store.migrations import upgrade as migrate  # noqa: PLC0415

    said: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / store.name
        with closing(sqlite3.connect(store)) as raw, closing(sqlite3.connect(copy)) as other:
            raw.backup(other)
        migrate(copy, found.version, said.append)
    return said
