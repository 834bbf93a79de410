"""A store that somebody else may have open: looked at, and never changed."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Protocol

from florin_server.store.engine import schema
from florin_server.store.engine.query import Operation, StoreError, T, run
from florin_server.store.engine.sqlite import Connection, to_store_error


class Reader(Protocol):
    """What reads a store beside the service that has it."""

    @property
    def engine(self) -> str:
        """Name and version of what the store is on."""

    def read(self, op: Operation[T]) -> T:
        """Runs an operation on what is committed."""

    def time_us(self) -> int | None:
        """Return the time of the server that has the store, in microseconds since the Unix epoch.

        None where no other machine has it.
        """

    def close(self) -> None:
        """Lets go of the store."""


class Reading:
    """Reads the file of a store, beside the server that has it or without one.

    Each operation has a snapshot of its own, as long as it runs: the server's log can be folded
    into the file in between. StoreError if the file is none of this version's.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise StoreError(f"there is no store at {path}: `florin up` makes one")
        schema.require(path)
        self.engine = f"SQLite {sqlite3.sqlite_version}"
        self._connection = Connection(path, writes=False, waits=True)

    def read(self, op: Operation[T]) -> T:
        """Runs an operation on what is committed."""
        try:
            self._connection.command("BEGIN")
            return run(op, self._connection.query)
        except sqlite3.Error as error:
            raise to_store_error(error) from error
        finally:
            self._connection.give_up()

    def time_us(self) -> None:
        """Return None: the file's time is this machine's."""

    def close(self) -> None:
        """Lets go of the file."""
        self._connection.close()
