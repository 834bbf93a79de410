"""Connections of one kind: made when they are needed, kept, and replaced when they broke."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from florin_server.domain.errors import Code, FlorinError
from florin_server.store.engine.postgres.connection import Connection
from florin_server.store.engine.postgres.errors import DriverError, to_store_error
from florin_server.store.engine.query import StoreUnavailable
from florin_server.store.engine.store import PoolUse

# whoever waits longer for a connection is told to come later
_TAKE_S = 5.0
# more than this means that the database is seconds behind
_WAITING_MAX = 20_000
# after a server could not be reached it is asked again so much later, twice as long each time
_BACK_OFF_S, _BACK_OFF_MAX_S = 0.05, 1.0


class Pool:
    """So many connections at most. Nothing is done to one that comes back: it costs no round trip.

    While the server cannot be reached callers are refused at once, but for one that tries.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], size: int) -> None:
        self._connect = connect
        self._size = size
        self._in_use = 0
        self._free = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._waiting = 0
        self._failures = 0
        self._retry_at = 0.0
        self._closed = False

    @property
    def use(self) -> PoolUse:
        """How many connections are taken, and how many callers wait for one."""
        return PoolUse(self._in_use, self._size, self._waiting)

    async def take(self) -> Connection:
        """A connection that is to be given back; StoreUnavailable if there is none in time."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        await self._turn()
        self._in_use += 1
        try:
            while self._idle:
                found = self._idle.pop()
                if found.usable:
                    return found
                found.drop()
            return await self._connected()
        except BaseException:
            self._in_use -= 1
            self._free.release()
            raise

    def give_back(self, connection: Connection) -> None:
        """Lets another have it; one that is not as it was is closed."""
        if connection.usable and not self._closed:
            self._idle.append(connection)
        else:
            connection.drop()
        self._in_use -= 1
        self._free.release()

    async def close(self) -> None:
        """Closes what nobody uses; the others when they come back."""
        self._closed = True
        while self._idle:
            with suppress(*DriverError):
                await self._idle.pop().close()

    async def _turn(self) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        if self._waiting >= _WAITING_MAX:
            raise FlorinError(Code.INTERNAL_ERROR, unavailable=True, retry_after_s=1)
        self._waiting += 1
        try:
            async with asyncio.timeout(_TAKE_S):
                await self._free.acquire()
        except TimeoutError as error:
            raise StoreUnavailable("every connection to the database is in use") from error
        finally:
            self._waiting -= 1

    async def _connected(self) -> Connection:
        now = asyncio.get_running_loop().time()
        if now < self._retry_at:
            raise StoreUnavailable("the database could not be reached a moment ago")
        # whoever comes while this one tries is refused
        self._retry_at = now + _BACK_OFF_MAX_S if self._failures else 0.0
        try:
            made = await self._connect()
        except DriverError as error:
            later = min(_BACK_OFF_MAX_S, _BACK_OFF_S * 2**self._failures)
            self._failures += 1
            self._retry_at = asyncio.get_running_loop().time() + later
            told = to_store_error(error)
            raise StoreUnavailable(f"the database cannot be reached: {told}") from error
        self._failures, self._retry_at = 0, 0.0
        return made
