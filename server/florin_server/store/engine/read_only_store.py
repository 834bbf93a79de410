"""A store opened to look at it: nothing is created, migrated or written, whoever else has it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from florin_server.store.engine.query import Operation, StoreError, T
from florin_server.store.engine.reading import Reader
from florin_server.store.engine.store import Store


class ReadOnlyStore(Store):
    """Read a store in one thread, an operation at a time; writes are a StoreError."""

    def __init__(self, reader: Reader, thread: ThreadPoolExecutor) -> None:
        super().__init__(reader.engine, _NoWrites())
        self._source = reader
        self._thread = thread
        self._closed = False

    @classmethod
    async def open(cls, connect: Callable[[], Reader]) -> Self:
        """Open a store through `connect`, which runs in the store's thread.

        StoreError if its schema is not this version's.
        """
        thread = ThreadPoolExecutor(1, "florin-look")
        try:
            return cls(await asyncio.get_running_loop().run_in_executor(thread, connect), thread)
        except BaseException:
            thread.shutdown(wait=False)
            raise

    @property
    def place(self) -> str:
        """What the store is on: its place is in the errors of opening it."""
        return self.engine

    @property
    def exclusive(self) -> bool:
        """False: a service may have it open."""
        return False

    async def read(self, op: Operation[T]) -> T:
        """Run an operation on one snapshot of what is committed."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._source.read, op)

    async def survey(self, op: Operation[T]) -> T:
        """Run an operation that looks at many rows, on one snapshot."""
        return await self.read(op)

    async def probe(self) -> None:
        """Do nothing: who looks once finds out by reading."""

    async def filled(self) -> None:
        """Do nothing: nothing is written here."""

    async def close(self) -> None:
        """Let go of the store; once more does nothing."""
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self._source.close)
            self._thread.shutdown(wait=False)


class _NoWrites:
    """Refuses every write."""

    busy = False
    queued = 0

    def submit(self, op: Operation[T]) -> asyncio.Future[T]:
        """Refuse an operation with a StoreError."""
        raise StoreError(f"{op.steps.__name__} writes, and the store was opened to look at it")
