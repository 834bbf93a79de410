"""Opens a store, on whichever engine it is."""

from __future__ import annotations

from pathlib import Path

from florin_server.store.engine.sqlite_store import SqliteStore
from florin_server.store.engine.store import Fault, Store
from florin_server.store.engine.where import Database


async def open_store(where: Path | Database, *, fault: Fault | None = None) -> Store:
    """Opens a store, makes its tables if it is new, migrates it if it is older.

    Raises StoreLocked while another server has the file open. `fault` is for tests.
    """
    if isinstance(where, Path):
        return await SqliteStore.at(where, fault or _no_fault)
    # whoever has SQLite needs no driver
    from florin_server.store.engine.postgres.store import PostgresStore  # noqa: PLC0415

    return await PostgresStore.at(where, fault or _no_fault)


def _no_fault(_step: str) -> None:
    pass
