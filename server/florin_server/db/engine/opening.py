"""Opens a store on its engine."""

from __future__ import annotations

from pathlib import Path

from florin_server.db.engine.sqlite_store import SqliteStore
from florin_server.db.engine.store import FaultHook, PaymentQueries, Store
from florin_server.db.engine.where import DatabaseConfig


async def open_store(
    location: Path | DatabaseConfig,
    queries: PaymentQueries,
    *,
    fault_hook: FaultHook | None = None,
) -> Store:
    """Open a store; create its tables if it is new, and migrate it if it is older.

    Raise StoreLocked while another server has the file open. `fault_hook` is for tests.
    """
    if isinstance(location, Path):
        return await SqliteStore.open(location, queries, fault_hook or _no_fault)
    # SQLite users need no driver
    from florin_server.db.engine.postgres.store import PostgresStore  # noqa: PLC0415

    return await PostgresStore.open(location, queries, fault_hook or _no_fault)


def _no_fault(_step: str) -> None:
    pass
