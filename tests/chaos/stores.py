"""Read the store of a chaos run on either engine, while the service uses it."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
from florin_sandbox.simulation.audit.facts import AuditedStore, SqliteAuditedStore
from florin_server.db.engine.postgres.reading import PostgresStoreReader
from florin_server.db.engine.query import Operation
from florin_server.db.engine.where import DatabaseConfig

from tests.support import postgres

T = TypeVar("T")


class PostgresAuditedStore:
    """A database on PostgreSQL, read in a thread with a connection of its own."""

    def __init__(self, database: DatabaseConfig) -> None:
        self._database = database
        self._thread = ThreadPoolExecutor(1)
        self._runner = asyncio.Runner()
        self._connection: Any = None

    def select(self, query: str, /, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query; amounts are digits, as on SQLite."""
        parts = query.split("?")
        numbered = "".join(f"{part}${n}" for n, part in enumerate(parts[:-1], 1)) + parts[-1]
        return self._thread.submit(self._select, numbered, values).result()

    def read(self, operation: Operation[T], /) -> T:
        """Return the result of an operation."""
        return self._thread.submit(self._read, operation).result()

    def _select(self, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        if self._connection is None:
            self._connection = self._runner.run(asyncpg.connect(self._database.dsn))
        rows = self._runner.run(self._connection.fetch(query, *values))
        return [
            tuple(str(int(item)) if isinstance(item, Decimal) else item for item in row)
            for row in rows
        ]

    def _read(self, operation: Operation[T]) -> T:
        reader = PostgresStoreReader(self._database)
        try:
            return reader.read(operation)
        finally:
            reader.close()


def open_store(home: Path, engine: str) -> AuditedStore:
    """Return the store of a folder in this process, which can be a fork of another."""
    return _open_store(home, engine, os.getpid())


@cache
def _open_store(home: Path, engine: str, _pid: int) -> AuditedStore:
    if engine == postgres.SQLITE:
        return SqliteAuditedStore(home / "florin.db")
    return PostgresAuditedStore(postgres.get_database(home, engine))
