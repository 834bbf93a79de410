"""Notices by NOTIFY and LISTEN, each on a connection of its own.

Notices are sent after the commit that they tell of, not in it: commits that notify come one after
the other in the whole server, and fail when its queue of notices is full.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import asyncpg

from florin_server.clock import Clock, first_of
from florin_server.store.engine.postgres.errors import DriverError, to_store_error
from florin_server.store.engine.postgres.session import open_session
from florin_server.store.engine.query import StoreUnavailable
from florin_server.store.engine.where import Database

_CHANNEL = "florin"
_TELL = f"SELECT pg_notify('{_CHANNEL}', $1)"
_CONNECT_S, _ANSWER_S = 5.0, 2.0
# a connection that a network has forgotten says nothing: it is asked so often whether it is there
_ALIVE_S = 10.0


class DatabaseNotices:
    """The notices of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._telling: asyncpg.Connection[Any] | None = None

    async def tell(self, text: str) -> None:
        """Sends a text, on a connection that is kept."""
        try:
            if self._telling is None:
                self._telling = await self._connected("tell")
            await self._telling.execute(_TELL, text)
        except BaseException as error:
            self._drop()
            if isinstance(error, DriverError):
                raise to_store_error(error) from error
            raise

    async def listen(
        self, clock: Clock, began: Callable[[], None], heard: Callable[[str], None]
    ) -> None:
        """Listens on a connection that is made for it."""
        lost = asyncio.Event()
        try:
            raw = await self._connected("listen")
        except DriverError as error:
            raise to_store_error(error) from error
        try:
            raw.add_termination_listener(lambda _: lost.set())
            await raw.add_listener(_CHANNEL, lambda _raw, _pid, _channel, text: heard(text))
            began()
            while True:
                await first_of(lost.wait(), clock.sleep(_ALIVE_S))
                if lost.is_set():
                    break
                await raw.execute("SELECT 1")
            raise StoreUnavailable("the connection that listens has ended")
        except DriverError as error:
            raise to_store_error(error) from error
        finally:
            raw.terminate()

    async def close(self) -> None:
        """Closes what tells; what listens ends with whoever listens."""
        telling, self._telling = self._telling, None
        if telling is not None:
            with suppress(*DriverError):
                await telling.close(timeout=_ANSWER_S)

    def _drop(self) -> None:
        if self._telling is not None:
            self._telling.terminate()
            self._telling = None

    async def _connected(self, what: str) -> asyncpg.Connection[Any]:
        return await open_session(
            self._database,
            f"florin-{what}",
            {
                "statement_timeout": str(int(_ANSWER_S * 1000)),
                # a notice that a crash takes away is missed by nobody
                "synchronous_commit": "off",
            },
            timeout_s=_CONNECT_S,
            command_timeout_s=_ANSWER_S,
        )
