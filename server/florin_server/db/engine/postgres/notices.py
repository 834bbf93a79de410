"""Notifications by NOTIFY and LISTEN, each on a separate connection.

A notification is sent after its commit, not in it: commits with NOTIFY run one after another in the
whole server, and fail when its notification queue is full.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement

from florin_server.base.clock import Clock, wait_for_first
from florin_server.db.engine.postgres.errors import DriverError, to_store_error
from florin_server.db.engine.postgres.session import make_statement_prefix, open_session
from florin_server.db.engine.query import StoreUnavailable
from florin_server.db.engine.where import DatabaseConfig

CHANNEL = "florin"
_NOTIFY = f"SELECT pg_notify('{CHANNEL}', $1)"
_CONNECT_S, _ANSWER_S = 5.0, 2.0
# a connection that the network dropped is silent, so it is checked at this interval
_ALIVE_S = 10.0


class PostgresNotificationChannel:
    """The notifications of one database."""

    def __init__(self, database: DatabaseConfig) -> None:
        self._database = database
        self._sender: asyncpg.Connection[Any] | None = None
        self._notify: PreparedStatement[Any] | None = None

    async def publish(self, text: str) -> None:
        """Send a text on a connection that stays open."""
        try:
            if self._sender is None:
                self._sender = await self._open_connection("notify")
            if self._notify is None:
                self._notify = await self._sender.prepare(_NOTIFY, name=make_statement_prefix())
            await self._notify.fetch(text)
        except BaseException as error:
            self._drop()
            if isinstance(error, DriverError):
                raise to_store_error(error) from error
            raise

    async def listen(
        self, clock: Clock, on_start: Callable[[], None], on_message: Callable[[str], None]
    ) -> None:
        """Listen on a separate connection."""
        lost = asyncio.Event()
        try:
            raw = await self._open_connection("listen")
        except DriverError as error:
            raise to_store_error(error) from error
        try:
            raw.add_termination_listener(lambda _: lost.set())
            await raw.add_listener(CHANNEL, lambda _raw, _pid, _channel, text: on_message(text))
            on_start()
            while True:
                await wait_for_first(lost.wait(), clock.sleep(_ALIVE_S))
                if lost.is_set():
                    break
                await raw.execute("SELECT 1")
            raise StoreUnavailable("the connection that listens has ended")
        except DriverError as error:
            raise to_store_error(error) from error
        finally:
            raw.terminate()

    async def close(self) -> None:
        """Close the sending connection; the listening connection ends with its listener."""
        sender, self._sender, self._notify = self._sender, None, None
        if sender is not None:
            with suppress(*DriverError):
                await sender.close(timeout=_ANSWER_S)

    def _drop(self) -> None:
        if self._sender is not None:
            self._sender.terminate()
            self._sender = self._notify = None

    async def _open_connection(self, what: str) -> asyncpg.Connection[Any]:
        return await open_session(
            self._database,
            f"florin-{what}",
            {
                "statement_timeout": str(int(_ANSWER_S * 1000)),
                # a notification lost in a crash does no harm
                "synchronous_commit": "off",
            },
            timeout_s=_CONNECT_S,
            command_timeout_s=_ANSWER_S,
        )
