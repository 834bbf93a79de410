"""A pool of connections of one kind, opened on demand and replaced when they break."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from florin_server.db.engine.postgres.connection import PostgresConnection
from florin_server.db.engine.postgres.errors import DriverError, to_store_error
from florin_server.db.engine.query import StoreUnavailable
from florin_server.db.engine.store import PoolUse
from florin_server.domain.errors import ApiError, ErrorCode

# a caller that waits longer for a connection gets an error
_TAKE_S = 5.0
# more than this means that the database is seconds behind
_WAITING_MAX = 20_000
# first pause after a failed connection; it doubles with each failure up to the second value
_BACK_OFF_S, _BACK_OFF_MAX_S = 0.05, 1.0


class ConnectionPool:
    """A limited pool. A returned connection is not reset, which saves a round trip.

    While the server is unreachable callers get an error at once, except the one that tries again.
    """

    def __init__(self, connect: Callable[[], Awaitable[PostgresConnection]], size: int) -> None:
        self._connect = connect
        self._size = size
        self._in_use = 0
        self._free = asyncio.Semaphore(size)
        self._idle: list[PostgresConnection] = []
        self._waiting = 0
        self._failures = 0
        self._retry_at = 0.0
        self._closed = False

    @property
    def usage(self) -> PoolUse:
        """Return how many connections are in use, and how many callers wait."""
        return PoolUse(self._in_use, self._size, self._waiting)

    async def acquire(self) -> PostgresConnection:
        """Return a connection, to be given back; raise StoreUnavailable if none is free in time."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        await self._wait_for_slot()
        self._in_use += 1
        try:
            while self._idle:
                connection = self._idle.pop()
                if connection.is_usable:
                    return connection
                connection.drop()
            return await self._open_connection()
        except BaseException:
            self._in_use -= 1
            self._free.release()
            raise

    def release(self, connection: PostgresConnection) -> None:
        """Return a connection to the pool; close it if it is broken or in a transaction."""
        if connection.is_usable and not self._closed:
            self._idle.append(connection)
        else:
            connection.drop()
        self._in_use -= 1
        self._free.release()

    async def close(self) -> None:
        """Close the idle connections; the others close when they are given back."""
        self._closed = True
        while self._idle:
            with suppress(*DriverError):
                await self._idle.pop().close()

    async def _wait_for_slot(self) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        if self._waiting >= _WAITING_MAX:
            raise ApiError(ErrorCode.INTERNAL_ERROR, unavailable=True, retry_after_s=1)
        self._waiting += 1
        try:
            async with asyncio.timeout(_TAKE_S):
                await self._free.acquire()
        except TimeoutError as error:
            raise StoreUnavailable("every connection to the database is in use") from error
        finally:
            self._waiting -= 1

    async def _open_connection(self) -> PostgresConnection:
        now = asyncio.get_running_loop().time()
        if now < self._retry_at:
            raise StoreUnavailable("the database was unreachable a moment ago")
        # other callers get an error while this one tries
        self._retry_at = now + _BACK_OFF_MAX_S if self._failures else 0.0
        try:
            connection = await self._connect()
        except DriverError as error:
            later = min(_BACK_OFF_MAX_S, _BACK_OFF_S * 2**self._failures)
            self._failures += 1
            self._retry_at = asyncio.get_running_loop().time() + later
            store_error = to_store_error(error)
            raise StoreUnavailable(f"the database cannot be reached: {store_error}") from error
        self._failures, self._retry_at = 0, 0.0
        return connection
