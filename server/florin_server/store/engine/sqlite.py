"""One SQLite file: connections, and the lock that keeps a second server out."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from florin_server.store.engine.query import (
    Operation,
    Query,
    Row,
    StoreError,
    StoreUnavailable,
    run,
)

Outcome = tuple[Any, Exception | None]

# SQLite keeps this many prepared statements, more than there are operations
_STATEMENTS = 256
# pages of 4 KiB; negative values are KiB
_CACHE_KIB = -32_768
# the part of an error code that is not its detail
_PRIMARY = 0xFF
# what the machine under the file does, and may stop doing; a damaged file stays damaged
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

    passes = True


class _ExactSum:
    def __init__(self) -> None:
        self._sum = 0

    def step(self, digits: Any) -> None:
        if digits is not None:
            self._sum += int(digits)

    def finalize(self) -> Any:
        return str(self._sum)


def _fold_case(text: str | None) -> str | None:
    """Texts that differ in case only, or in how an accent is written, become the same."""
    return None if text is None else unicodedata.normalize("NFC", text).casefold()


class Connection:
    """A connection; the one that writes is the only one that checkpoints.

    One of the event loop `waits` for no lock: SQLite would sleep in the loop's thread.
    """

    def __init__(self, path: Path, *, writes: bool, waits: bool = False) -> None:
        self._raw = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, cached_statements=_STATEMENTS
        )
        self._raw.create_aggregate("exact_sum", 1, _ExactSum)
        self._raw.create_function("fold_case", 1, _fold_case, deterministic=True)
        self._raw.execute(f"PRAGMA cache_size={_CACHE_KIB}")
        if writes:
            self._raw.execute("PRAGMA journal_mode=WAL")
            self._raw.execute("PRAGMA synchronous=FULL")
            self._raw.execute("PRAGMA foreign_keys=ON")
        else:
            self._raw.execute("PRAGMA query_only=ON")
            self._raw.execute("PRAGMA wal_autocheckpoint=0")
        if not waits:
            self._raw.execute("PRAGMA busy_timeout=0")
        self.command = self._raw.execute
        self.close = self._raw.close

    def on_change(self, table: str, key: str, changed: Callable[[str], None]) -> None:
        """Has `changed` called with the key of each row that is changed or deleted from now on.

        Before its transaction is committed, and whether or not it will be.
        """
        self._raw.create_function(f"changed_{table}", 1, changed)
        for change in ("UPDATE", "DELETE"):
            self._raw.execute(
                f"CREATE TEMP TRIGGER {table}_{change} AFTER {change} ON main.{table} "
                f"BEGIN SELECT changed_{table}(OLD.{key}); END"
            )

    def query(self, query: Query) -> list[Row]:
        """Runs one query."""
        compiled = query.statement.sqlite
        if query.many is not None:
            self._raw.executemany(compiled.sql, [compiled.values(p) for p in query.many])
            return []
        found = self._raw.execute(compiled.sql, compiled.values(query.params)).fetchall()
        return compiled.rows(found)

    def attempt(self, op: Operation[Any]) -> Outcome:
        """Runs an operation inside the open transaction; if it fails nothing of it stays.

        StoreUnavailable if SQLite gave up the whole transaction, e.g. because the disk is full.
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

    def give_up(self) -> None:
        """Rolls back what is open."""
        with suppress(sqlite3.Error):
            self.command("ROLLBACK")


def is_locked(error: BaseException) -> bool:
    """Return whether another process has a lock that was needed; nothing was done then."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return isinstance(error, sqlite3.Error) and code & _PRIMARY == sqlite3.SQLITE_BUSY


def to_store_error(error: Exception) -> Exception:
    """The driver's errors as the store's, others as they are."""
    if not isinstance(error, sqlite3.Error):
        return error
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY
    wrapped = (StoreUnavailable if code in _PASSING else StoreError)(str(error))
    wrapped.__cause__ = error
    return wrapped


class FileLock:
    """Held as long as a process has the store open; the operating system frees it on any death."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise StoreLocked(
                f"{path} is locked: another server has this store open; "
                "SQLite serves one process, so stop the other or give this one its own file"
            ) from error

    def release(self) -> None:
        """Lets another process in."""
        os.close(self._fd)
