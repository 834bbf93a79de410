"""The store on SQLite: one file, one process, durable grouped writes, snapshot reads."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path
from typing import Any

from florin_server.db.engine import schema
from florin_server.db.engine.entity_cache import EntityCache
from florin_server.db.engine.query import (
    Operation,
    StoreUnavailable,
    T,
    run,
)
from florin_server.db.engine.sqlite import (
    FileLock,
    SqliteConnection,
    is_locked,
    to_store_error,
)
from florin_server.db.engine.store import MULTI_QUERY, FaultHook, PaymentQueries, Store
from florin_server.db.engine.writer import LOCK_RETRY_S, LOCKED_S, SqliteWriter
from florin_server.domain.payments.payment import Payment

# a long read yields to the event loop after this long
_HOLD_S = 0.005
# from this many payment reads in one loop turn on, one SELECT for all is cheaper
_IMMEDIATE_READS = 8
# each takes a core as long as it runs
_SCANS_MAX = 2


class SqliteStore(Store):
    """A file that only this process has open."""

    def __init__(
        self, path: Path, lock: FileLock, queries: PaymentQueries, fault_hook: FaultHook
    ) -> None:
        self._connection = SqliteConnection(path, writes=True)
        # no other process writes, so a cached payment is valid until this process changes it
        cache: EntityCache[Payment] = EntityCache()
        self._connection.on_change(queries.table, "id", cache.invalidate)
        self._writer = SqliteWriter(self._connection, fault_hook, cache.end_transaction)
        engine = f"SQLite {sqlite3.sqlite_version}"
        super().__init__(
            engine, self._writer, queries, immediate_reads=_IMMEDIATE_READS, cache=cache
        )
        self._path = path
        self._lock = lock
        self._readers: list[SqliteConnection] = []
        self._closed = False
        self._surveys = asyncio.Semaphore(_SCANS_MAX)

    @classmethod
    async def open(cls, path: Path, queries: PaymentQueries, fault_hook: FaultHook) -> SqliteStore:
        """Open a file; create it if it is new, and migrate it if it is older.

        Raise StoreLocked while another server has it open.
        """
        lock = FileLock(path.with_name(path.name + ".lock"))
        try:
            await asyncio.to_thread(schema.prepare, path)
            return cls(path, lock, queries, fault_hook)
        except BaseException:
            lock.release()
            raise

    @property
    def location(self) -> str:
        """Return the path of the file."""
        return str(self._path)

    @property
    def is_exclusive(self) -> bool:
        """Return True: the file is locked."""
        return True

    async def read(self, op: Operation[T]) -> T:
        """Run an operation that only reads.

        Rows usually come from memory, so reads run directly; a read with many queries yields to
        other tasks between them.
        """
        if self._closed:
            raise StoreUnavailable("the store is closed")
        until = time.monotonic() + LOCKED_S
        while True:
            try:
                return await self._read(op)
            except sqlite3.Error as error:
                if not is_locked(error) or time.monotonic() > until:
                    raise to_store_error(error) from error
            await asyncio.sleep(LOCK_RETRY_S)

    async def _read(self, op: Operation[T]) -> T:
        connection = (
            self._readers.pop() if self._readers else SqliteConnection(self._path, writes=False)
        )
        try:
            if self._is_single_query(op):
                if (found_result := _run_single_query(op, connection)) is not MULTI_QUERY:
                    result: T = found_result
                    return result
                self._mark_multi_query(op)
            connection.command("BEGIN")
            try:
                return await _run_cooperatively(op, connection)
            finally:
                connection.rollback()
        finally:
            self._release(connection)

    async def scan(self, op: Operation[T]) -> T:
        """Run an operation that reads many rows, in a thread."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        async with self._surveys:
            return await asyncio.to_thread(_scan, self._path, op)

    def _release(self, connection: SqliteConnection) -> None:
        if self._closed:
            connection.close()
        else:
            self._readers.append(connection)

    async def probe(self) -> None:
        """Read from the file, without a transaction."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        try:
            self._connection.command("SELECT version_num FROM alembic_version")
        except sqlite3.Error as error:
            if not is_locked(error):
                raise to_store_error(error) from error

    async def analyze(self) -> None:
        """Do nothing: SQLite plans by the existing indexes."""

    async def close(self) -> None:
        """Commit queued operations and release the lock; closing again does nothing."""
        if self._closed:
            return
        self._closed = True
        await self._writer.close()
        while self._readers:
            self._readers.pop().close()
        self._connection.close()
        self._lock.release()


def _scan(path: Path, op: Operation[T]) -> T:
    connection = SqliteConnection(path, writes=False, waits=True)
    try:
        connection.command("BEGIN")
        return run(op, connection.query)
    except sqlite3.Error as error:
        raise to_store_error(error) from error
    finally:
        connection.rollback()
        connection.close()


def _run_single_query(op: Operation[Any], connection: SqliteConnection) -> Any:
    """Return the result of a single-query operation, without a transaction; else MULTI_QUERY."""
    steps = iter(op)
    try:
        steps.send(connection.query(next(steps)))
    except StopIteration as stop:
        return stop.value
    return MULTI_QUERY


async def _run_cooperatively(op: Operation[T], connection: SqliteConnection) -> T:
    until = time.monotonic() + _HOLD_S
    steps = iter(op)
    try:
        query = next(steps)
        while True:
            rows = connection.query(query)
            if time.monotonic() > until:
                await asyncio.sleep(0)
                until = time.monotonic() + _HOLD_S
            query = steps.send(rows)
    except StopIteration as stop:
        result: T = stop.value
        return result
