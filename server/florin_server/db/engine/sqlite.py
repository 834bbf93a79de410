"""One SQLite file: connections, and the lock that keeps out a second server."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from florin_server.db.engine.query import (
    Operation,
    Query,
    StoreError,
    StoreUnavailable,
    run,
)

OperationOutcome = tuple[Any, Exception | None]

# the number of prepared statements SQLite keeps, more than the number of operations
_STATEMENTS = 256
# pages of 4 KiB; negative values are KiB
_CACHE_KIB = -32_768
# the part of an error code without its detail
_PRIMARY = 0xFF
# temporary conditions of the machine under the file; a damaged file stays damaged
_PASSING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)


class StoreLocked(StoreError):  # noqa: N818  (a state of the world, not a mistake)
    """Another process has the store open."""

    is_transient = True


class _SumU256:
    def __init__(self) -> None:
        self._sum = 0

    def step(self, digits: Any) -> None:
        if digits is not None:
            self._sum += int(digits)

    def finalize(self) -> Any:
        return str(self._sum)


def _fold_case(text: str | None) -> str | None:
    """Make texts equal that differ only in case, or in the encoding of an accent."""
    return None if text is None else unicodedata.normalize("NFC", text).casefold()


class SqliteConnection:
    """A connection; only the writing connection checkpoints.

    A connection of the event loop never `waits` for a lock: SQLite would sleep in the loop's
    thread.
    """

    def __init__(self, path: Path, *, writes: bool, waits: bool = False) -> None:
        self._raw = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, cached_statements=_STATEMENTS
        )
        self._raw.create_aggregate("exact_sum", 1, _SumU256)
        self._raw.create_function("fold_case", 1, _fold_case, deterministic=True)
        self._raw.execute(f"PRAGMA cache_size={_CACHE_KIB}")
        if writes:
            self._raw.execute("PRAGMA journal_mode=WAL")
            self._raw.execute("PRAGMA synchronous=FULL")
            self._raw.execute("PRAGMA foreign_keys=ON")
            # what a savepoint can roll back stays out of temporary files: it is a group at most
            self._raw.execute("PRAGMA temp_store=MEMORY")
        else:
            self._raw.execute("PRAGMA query_only=ON")
            self._raw.execute("PRAGMA wal_autocheckpoint=0")
        if not waits:
            self._raw.execute("PRAGMA busy_timeout=0")
        self.command = self._raw.execute
        self.close = self._raw.close

    def on_change(self, table: str, key: str, callback: Callable[[str], None]) -> None:
        """Call `callback` with the key of each row that is changed or deleted from now on.

        The call comes before the commit, even if the transaction is rolled back.
        """
        self._raw.create_function(f"changed_{table}", 1, callback)
        for change in ("UPDATE", "DELETE"):
            self._raw.execute(
                f"CREATE TEMP TRIGGER {table}_{change} AFTER {change} ON main.{table} "
                f"BEGIN SELECT changed_{table}(OLD.{key}); END"
            )

    def query(self, query: Query) -> list[Any]:
        """Run one query."""
        compiled = query.statement.sqlite
        if query.param_rows is not None:
            self._raw.executemany(
                compiled.sql, [compiled.encode_params(p) for p in query.param_rows]
            )
            return []
        rows = self._raw.execute(compiled.sql, compiled.encode_params(query.params)).fetchall()
        return compiled.read_rows(rows)

    def attempt(self, op: Operation[Any]) -> OperationOutcome:
        """Run an operation in the open transaction; if it fails, roll back its writes.

        Raise StoreUnavailable if SQLite ended the whole transaction, for example because the disk
        is full.
        """
        self.command("SAVEPOINT op")
        try:
            result = run(op, self.query)
        except Exception as error:
            if not self._raw.in_transaction:
                raise StoreUnavailable("SQLite ended the transaction") from error
            self.command("ROLLBACK TO op")
            self.command("RELEASE op")
            return None, to_store_error(error)
        self.command("RELEASE op")
        return result, None

    def rollback(self) -> None:
        """Roll back the open transaction."""
        with suppress(sqlite3.Error):
            self.command("ROLLBACK")


def is_locked(error: BaseException) -> bool:
    """Return whether another process had a needed lock; then nothing was done."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return isinstance(error, sqlite3.Error) and code & _PRIMARY == sqlite3.SQLITE_BUSY


def to_store_error(error: Exception) -> Exception:
    """Return a driver error as a store error, and other errors unchanged."""
    if not isinstance(error, sqlite3.Error):
        return error
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY
    wrapped = (StoreUnavailable if code in _PASSING else StoreError)(str(error))
    wrapped.__cause__ = error
    return wrapped


class FileLock:
    """The lock of a process that has the store open; the operating system frees it if it dies."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise StoreLocked(
                f"{path} is locked: another server has this store open; "
                "SQLite serves one process, so stop the other server or use another file"
            ) from error

    def release(self) -> None:
        """Release the lock."""
        os.close(self._fd)
