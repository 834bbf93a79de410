"""The store on SQLite: one file, one process, durable groups of writes, reads of one snapshot."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path
from typing import Any

from florin_server.store.engine import schema
from florin_server.store.engine.query import Operation, StoreUnavailable, T, run
from florin_server.store.engine.sqlite import Connection, FileLock, is_locked, to_store_error
from florin_server.store.engine.store import MORE, Fault, Store
from florin_server.store.engine.writer import LOCKED_S, LOOK_AGAIN_S, Writer
from florin_server.store.payments.cache import PaymentCache

# a long read lets others have the event loop after so long
_HOLD_S = 0.005
# reads of a payment in one turn of the event loop from which on one SELECT for all costs less
_ALONE = 8
# each takes a core as long as it runs
_SURVEYS = 2


class SqliteStore(Store):
    """A file, which this process has alone."""

    def __init__(self, path: Path, lock: FileLock, fault: Fault) -> None:
        self._connection = Connection(path, writes=True)
        # nobody else writes, so what is known of a payment is true until this process changes it
        cache = PaymentCache()
        self._connection.on_change("payment", "id", cache.changed)
        self._writer = Writer(self._connection, fault, cache.settled)
        engine = f"SQLite {sqlite3.sqlite_version}"
        super().__init__(engine, self._writer, reads_at_once=_ALONE, cache=cache)
        self._path = path
        self._lock = lock
        self._readers: list[Connection] = []
        self._closed = False
        self._surveys = asyncio.Semaphore(_SURVEYS)

    @classmethod
    async def at(cls, path: Path, fault: Fault) -> SqliteStore:
        """Opens a file, makes it if it is new, migrates it if it is older.

        Raises StoreLocked while another server has it open.
        """
        lock = FileLock(path.with_name(path.name + ".lock"))
        try:
            await asyncio.to_thread(schema.prepare, path)
            return cls(path, lock, fault)
        except BaseException:
            lock.release()
            raise

    @property
    def place(self) -> str:
        """The path of the file."""
        return str(self._path)

    @property
    def exclusive(self) -> bool:
        """True: the file is locked."""
        return True

    async def read(self, op: Operation[T]) -> T:
        """Runs an operation that only reads.

        Rows come from memory as a rule, so reads are done at once; one with many queries makes
        room for others between them.
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
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _read(self, op: Operation[T]) -> T:
        connection = self._readers.pop() if self._readers else Connection(self._path, writes=False)
        try:
            if self._asks_once(op):
                if (found := _one_question(op, connection)) is not MORE:
                    result: T = found
                    return result
                self._asks_more(op)
            connection.command("BEGIN")
            try:
                return await _unhurried(op, connection)
            finally:
                connection.give_up()
        finally:
            self._release(connection)

    async def survey(self, op: Operation[T]) -> T:
        """Runs an operation that looks at many rows, in a thread."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        async with self._surveys:
            return await asyncio.to_thread(_survey, self._path, op)

    def _release(self, connection: Connection) -> None:
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

    async def filled(self) -> None:
        """Does nothing: SQLite plans by the indexes that there are."""

    async def close(self) -> None:
        """Commits what is queued and lets another server in; once more does nothing."""
        if self._closed:
            return
        self._closed = True
        await self._writer.close()
        while self._readers:
            self._readers.pop().close()
        self._connection.close()
        self._lock.release()


def _survey(path: Path, op: Operation[T]) -> T:
    connection = Connection(path, writes=False, waits=True)
    try:
        connection.command("BEGIN")
        return run(op, connection.query)
    except sqlite3.Error as error:
        raise to_store_error(error) from error
    finally:
        connection.give_up()
        connection.close()


def _one_question(op: Operation[Any], connection: Connection) -> Any:
    """What an operation comes to that asks once, which needs no transaction; else MORE."""
    steps = iter(op)
    try:
        steps.send(connection.query(next(steps)))
    except StopIteration as stop:
        return stop.value
    return MORE


async def _unhurried(op: Operation[T], connection: Connection) -> T:
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
