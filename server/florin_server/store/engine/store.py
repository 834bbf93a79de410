"""The store on SQLite: one file, one process, durable groups of writes, reads of one snapshot each.

Another engine is another class with these methods; the operations stay as they are.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path

from florin_server.store.engine import schema
from florin_server.store.engine.query import Op, StoreUnavailable, T, run
from florin_server.store.engine.sqlite import Connection, FileLock, StoreLocked, to_store_error
from florin_server.store.engine.writer import Fault, Writer
from florin_server.store.payments.reader import PaymentReader

__all__ = ["Store", "StoreLocked"]

# a long read lets others have the event loop after so long
_HOLD_S = 0.005
# each takes a core as long as it runs
_SURVEYS = 2


class Store:
    """Everything that is remembered. Made by `open`, once in a process."""

    def __init__(self, path: Path, lock: FileLock, fault: Fault) -> None:
        self._path = path
        self._lock = lock
        self._connection = Connection(path, writes=True)
        self._writer = Writer(self._connection, fault)
        self._readers: list[Connection] = []
        self._closed = False
        self._surveys = asyncio.Semaphore(_SURVEYS)
        self.reader = PaymentReader(self.read)

    @classmethod
    async def open(cls, path: str | Path, *, fault: Fault | None = None) -> Store:
        """Opens a file, makes it if it is new, migrates it if it is older.

        Raises StoreLocked while another server has it open. `fault` is called with the name of a
        durable step: "op" (an operation has run), "commit" (a group is about to be committed),
        "committed" (it is on disk, its callers do not know yet).
        """
        file = Path(path)
        lock = FileLock(file.with_name(file.name + ".lock"))
        try:
            await asyncio.to_thread(schema.prepare, file)
            return cls(file, lock, fault or _no_fault)
        except BaseException:
            lock.release()
            raise

    @property
    def exclusive(self) -> bool:
        """No other process has this store: leases of former ones may be taken over at once."""
        return True

    @property
    def busy(self) -> bool:
        """True while something waits to be durable."""
        return self._writer.busy

    @property
    def queued(self) -> int:
        """How many operations wait to be durable."""
        return self._writer.queued

    async def write(self, op: Op[T]) -> T:
        """Runs an operation and returns once it is durable; if it raises, nothing of it is kept.

        A caller that is cancelled does not know whether its operation was committed.
        """
        return await self._writer.submit(op)

    async def read(self, op: Op[T]) -> T:
        """Runs an operation that only reads, on one snapshot of what is committed.

        Rows come from memory as a rule, so reads are done at once; one with many queries makes
        room for others between them.
        """
        if self._closed:
            raise StoreUnavailable("the store is closed")
        connection = self._readers.pop() if self._readers else Connection(self._path, writes=False)
        try:
            connection.command("BEGIN")
            return await _unhurried(op, connection)
        except sqlite3.Error as error:
            raise to_store_error(error) from error
        finally:
            connection.give_up()
            self._release(connection)

    async def survey(self, op: Op[T]) -> T:
        """Runs an operation that looks at many rows, in a thread, on one snapshot.

        A few at a time; the event loop and other reads go on meanwhile.
        """
        if self._closed:
            raise StoreUnavailable("the store is closed")
        async with self._surveys:
            return await asyncio.to_thread(_survey, self._path, op)

    def _release(self, connection: Connection) -> None:
        if self._closed:
            connection.close()
        else:
            self._readers.append(connection)

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


def _survey(path: Path, op: Op[T]) -> T:
    connection = Connection(path, writes=False)
    try:
        connection.command("BEGIN")
        return run(op, connection.query)
    except sqlite3.Error as error:
        raise to_store_error(error) from error
    finally:
        connection.give_up()
        connection.close()


async def _unhurried(op: Op[T], connection: Connection) -> T:
    until = time.monotonic() + _HOLD_S
    try:
        query = next(op)
        while True:
            rows = connection.query(query)
            if time.monotonic() > until:
                await asyncio.sleep(0)
                until = time.monotonic() + _HOLD_S
            query = op.send(rows)
    except StopIteration as stop:
        result: T = stop.value
        return result


def _no_fault(_step: str) -> None:
    pass
