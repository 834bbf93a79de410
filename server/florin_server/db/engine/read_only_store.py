"""A store opened read-only: nothing is created, migrated or written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from florin_server.db.engine.query import Operation, StoreError, T
from florin_server.db.engine.reading import StoreReader
from florin_server.db.engine.store import PaymentQueries, Store


class ReadOnlyStore(Store):
    """Read a store in one thread, one operation at a time; a write raises StoreError."""

    def __init__(
        self, reader: StoreReader, queries: PaymentQueries, thread: ThreadPoolExecutor
    ) -> None:
        super().__init__(reader.engine, _RefusingWriter(), queries)
        self._source = reader
        self._thread = thread
        self._closed = False

    @classmethod
    async def open(cls, connect: Callable[[], StoreReader], queries: PaymentQueries) -> Self:
        """Open a store through `connect`, which runs in the store's thread.

        Raise StoreError if its schema is not this version's.
        """
        thread = ThreadPoolExecutor(1, "florin-look")
        try:
            reader = await asyncio.get_running_loop().run_in_executor(thread, connect)
            return cls(reader, queries, thread)
        except BaseException:
            thread.shutdown(wait=False)
            raise

    @property
    def location(self) -> str:
        """Return the engine's name; errors of opening contain the place."""
        return self.engine

    @property
    def is_exclusive(self) -> bool:
        """Return False: a service may have it open."""
        return False

    async def read(self, op: Operation[T]) -> T:
        """Run an operation on one snapshot of the committed data."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._source.read, op)

    async def scan(self, op: Operation[T]) -> T:
        """Run an operation that reads many rows, on one snapshot."""
        return await self.read(op)

    async def probe(self) -> None:
        """Do nothing: a one-time reader finds out by reading."""

    async def analyze(self) -> None:
        """Do nothing: this store never writes."""

    async def close(self) -> None:
        """Close the store; closing it again does nothing."""
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self._source.close)
            self._thread.shutdown(wait=False)


class _RefusingWriter:
    """A writer that refuses every write."""

    is_busy = False
    queued_count = 0

    def submit(self, op: Operation[T]) -> asyncio.Future[T]:
        """Refuse an operation with a StoreError."""
        raise StoreError(f"{op.steps.__name__} writes, but the store is open read-only")
