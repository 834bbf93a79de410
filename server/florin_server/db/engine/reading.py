"""A reader of a store that another process may have open; it never changes it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Protocol

from florin_server.db.engine import schema
from florin_server.db.engine.query import (
    Operation,
    StoreError,
    T,
    run,
)
from florin_server.db.engine.sqlite import SqliteConnection, to_store_error


class StoreReader(Protocol):
    """A reader of a store, beside the service that has it open."""

    @property
    def engine(self) -> str:
        """Return the name and version of the store's engine."""

    def read(self, op: Operation[T]) -> T:
        """Run an operation on committed data."""

    def time_us(self) -> int | None:
        """Return the time of the data by the store server's clock, in microseconds since the epoch.

        Return None if the store is on this machine.
        """

    def close(self) -> None:
        """Close the store."""


class SqliteStoreReader:
    """Read a store's file, with or without a server that has it open.

    Each operation has its own snapshot, only while it runs: in between, the server can checkpoint
    its log into the file. Raise StoreError if this version cannot use the file.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise StoreError(f"no store exists at {path}: `florin up` creates it")
        schema.require_current(path)
        self.engine = f"SQLite {sqlite3.sqlite_version}"
        self._connection = SqliteConnection(path, writes=False, waits=True)

    def read(self, op: Operation[T]) -> T:
        """Run an operation on committed data."""
        try:
            self._connection.command("BEGIN")
            return run(op, self._connection.query)
        except sqlite3.Error as error:
            raise to_store_error(error) from error
        finally:
            self._connection.rollback()

    def time_us(self) -> None:
        """Return None: the file's time is this machine's."""

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
