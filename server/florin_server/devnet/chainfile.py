"""The SQLite file that an embedded chain lives in."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from florin_server.devnet.errors import DevChainError

V = TypeVar("V", int, bytes)


class ChainFile(Generic[V]):
    """One file, or memory without a path. Nothing lasts before `commit`.

    A new file gets the tables of `schema`, of which `meta` holds values by their names.
    DevChainError if another process has it, or it is none.
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
            # exclusive: a second process must not write the same chain
            self._db.execute("pragma locking_mode = exclusive")
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = full")
            self._db.execute("begin immediate")
            if not self._db.execute("select 1 from sqlite_master").fetchone():
                for statement in schema.split(";"):
                    self._db.execute(statement)
        except sqlite3.OperationalError as error:
            self._db.close()
            raise DevChainError(f"{path} is in use by another process: {error}") from error
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise DevChainError(f"{path} is not a chain: {error}") from error

    def meta(self, key: str) -> V | None:
        """A value that was set."""
        row = self._db.execute("select value from meta where key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def set_meta(self, key: str, value: V) -> None:
        """Sets a value."""
        self._write("insert or replace into meta values (?, ?)", [(key, value)])

    def commit(self) -> None:
        """Makes everything written so far last."""
        if self._db.in_transaction:
            self._db.execute("commit")

    def close(self) -> None:
        """Leaves what was not committed behind."""
        self._db.close()

    def _write(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        if not self._db.in_transaction:
            self._db.execute("begin immediate")
        self._db.executemany(statement, rows)
