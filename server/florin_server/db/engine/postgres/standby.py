"""A standby server that answers scans while it is close behind the primary server.

A standby that lost its primary server looks as if it had replayed everything, and one of another
cluster can have the same schema. So Florin compares what is written every second by each of its
processes: on the standby, the time of the process that wrote last on the primary server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from florin_server.db.engine.postgres.connection import PostgresConnection
from florin_server.db.engine.postgres.errors import DriverError
from florin_server.db.engine.postgres.pool import ConnectionPool
from florin_server.db.engine.query import StoreError
from florin_server.domain.errors import ApiError

# a check reads one row of each server; between two checks the standby is taken to be as it was
_CHECK_S = 1.0
_ANSWER_S = 3.0


class Heartbeats(Protocol):
    """A connection that reads when processes wrote that they are alive."""

    async def find_newest_heartbeat(self) -> tuple[str, int] | None:
        """Return the process that wrote last, and its time."""

    async def find_heartbeat(self, process_id: str) -> int | None:
        """Return the time that a process wrote last."""


class Standby:
    """The connections to a standby, and whether it may be read at present."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[PostgresConnection]],
        size: int,
        primary: ConnectionPool,
        lag_max_s: float,
    ) -> None:
        self.pool = ConnectionPool(connect, size)
        self._primary = primary
        self._lag_max_us = int(lag_max_s * 1_000_000)
        self._check_at = 0.0
        self._checking = asyncio.Lock()
        # why it is not read; empty if it is
        self.problem = ""

    async def is_usable(self) -> bool:
        """Return True if it was close behind the primary server a moment ago; never raise."""
        async with self._checking:
            now = asyncio.get_running_loop().time()
            if now >= self._check_at:
                self.problem = await self._find_problem()
                self._check_at = asyncio.get_running_loop().time() + _CHECK_S
        return not self.problem

    def disable(self, error: StoreError) -> None:
        """Leave it out until the next check, after it failed."""
        self.problem = str(error)

    async def _find_problem(self) -> str:
        try:
            primary = await self._primary.acquire()
            try:
                newest = await primary.find_newest_heartbeat()
            finally:
                self._primary.release(primary)
            standby = await self.pool.acquire()
            try:
                async with asyncio.timeout(_ANSWER_S):
                    return await find_lag_problem(newest, standby, self._lag_max_us)
            except TimeoutError:
                standby.drop()
                return f"it did not answer within {_ANSWER_S:.0f} s"
            finally:
                self.pool.release(standby)
        except (*DriverError, StoreError, ApiError) as error:
            return str(error) or type(error).__name__


async def find_lag_problem(
    newest: tuple[str, int] | None, standby: Heartbeats, lag_max_us: int
) -> str:
    """Return why a standby is not close enough to the primary server; empty if it is.

    `newest` is the newest heartbeat on the primary server.
    """
    if newest is None:
        return "no process is running, so its age is unknown"
    process_id, now_us = newest
    seen_us = await standby.find_heartbeat(process_id)
    if seen_us is None:
        return "it lacks the newest process: it is behind, or belongs to another database"
    if (lag_us := now_us - seen_us) > lag_max_us:
        return f"it is {lag_us // 1_000_000} s behind"
    return ""
