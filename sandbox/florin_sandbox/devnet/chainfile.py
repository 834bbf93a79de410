"""The SQLite file of an embedded chain."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from florin_sandbox.devnet.errors import DevChainError

V = TypeVar("V", int, bytes)


class ChainFile(Generic[V]):
    """One file, or memory without a path. Only `commit` makes writes durable.

    A new file gets the tables of `schema`, of which `find_meta` contains values by name. Raise
    DevChainError if another process has the file open, or it is not a chain.
    """

    def __init__(self, path: Path | None, schema: str) -> None:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(
            path if path is not None else ":memory:",
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            # exclusive: a second process must not write the chain
            self._db.execute("pragma locking_mode = exclusive")
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = full")
            self._db.execute("begin immediate")
            if not self._db.execute("select 1 from sqlite_master").fetchone():
                for statement in schema.split(";"):
                    self._db.execute(statement)
        except sqlite3.OperationalError as error:
            self._db.close()
            raise DevChainError(f"another process uses {path}: {error}") from error
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise DevChainError(f"{path} is not a chain: {error}") from error

    def find_meta(self, key: str) -> V | None:
        """Return a stored value; None if it is not set."""
        row = self._db.execute("select value from meta where key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def set_meta(self, key: str, value: V) -> None:
        """Store a value."""
        self._write("insert or replace into meta values (?, ?)", [(key, value)])

    def commit(self) -> None:
        """Make all writes so far durable."""
        if self._db.in_transaction:
            self._db.execute("commit")

    def close(self) -> None:
        """Close the file, and discard uncommitted writes."""
        self._db.close()

    def _write(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        if not self._db.in_transaction:
            self._db.execute("begin immediate")
        self._db.executemany(statement, rows)
