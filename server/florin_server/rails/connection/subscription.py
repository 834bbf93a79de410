"""A WebSocket on which a node announces new blocks, kept open as long as it is of use.

Nothing of what it says is believed: an announcement only lets the settler look earlier.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Hashable
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from florin_server.rails.connection.jsonrpc import TIMEOUT_S, Call
from florin_server.rails.connection.new_blocks import News

RETRY_S = 1.0
RETRY_MAX_S = 60.0
_MESSAGE_MAX = 1024 * 1024
_HEARTBEAT_S = 20.0  # proxies cut what is silent for a minute

_log = logging.getLogger(__name__)


class _Useless(Exception):  # noqa: N818  (a state of the world, not a mistake)
    """The node does not announce blocks, or stopped to."""


class Subscription:
    """Subscribes by a call, and announces each time that what `mark` reads changes.

    `mark` gives None for notifications that it cannot read. Of the address only the host is named.
    """

    def __init__(
        self,
        url: str,
        call: Call,
        mark: Callable[[Any], Hashable],
        news: News,
        *,
        retry_s: float = RETRY_S,
    ) -> None:
        self._url = url
        self._host = urlsplit(url).hostname or "?"
        self._call = call
        self._mark = mark
        self._news = news
        self._retry_s = retry_s
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins, unless it has."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Leaves."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except (aiohttp.ClientError, OSError, TimeoutError, _Useless) as fault:
                # the text of other faults may hold the address
                text = str(fault) if isinstance(fault, _Useless) else type(fault).__name__
                _log.warning("%s does not announce blocks: %s", self._host, text)
            finally:
                self._news.announced = False
            # what happened meanwhile is looked for at once
            self._news.announce()
            await asyncio.sleep(min(self._retry_s * 2 ** min(self._failures, 10), RETRY_MAX_S))
            self._failures += 1

    async def _listen(self) -> None:
        trace = aiohttp.TraceConfig()
        trace.on_request_redirect.append(_refuse)
        async with (
            aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), trace_configs=[trace]
            ) as session,
            session.ws_connect(
                self._url, heartbeat=_HEARTBEAT_S, max_msg_size=_MESSAGE_MAX
            ) as socket,
        ):
            await self._subscribe(socket)
            self._news.silent.clear()
            self._news.announced = True
            hears = asyncio.ensure_future(self._hear(socket))
            silent = asyncio.ensure_future(self._news.silent.wait())
            try:
                await asyncio.wait({hears, silent}, return_when=asyncio.FIRST_COMPLETED)
                if not hears.done():
                    raise _Useless("blocks came that it did not announce")
                await hears
            finally:
                hears.cancel()
                silent.cancel()
                await asyncio.gather(hears, silent, return_exceptions=True)

    async def _subscribe(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        method, params = self._call
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        await socket.send_str(orjson.dumps(question).decode())
        async with asyncio.timeout(TIMEOUT_S):
            answer = _read(await socket.receive())
        if answer.get("id") != 1 or answer.get("result") is None:
            raise _Useless("it refused the subscription")

    async def _hear(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        last: Hashable = None
        while True:
            told = _read(await socket.receive())
            params = told.get("params")
            mark = self._mark(params.get("result")) if isinstance(params, dict) else None
            if mark is not None and mark != last:
                # only one that announces is worth a quick return to it
                last, self._failures = mark, 0
                self._news.announce()


async def _refuse(*_: Any) -> None:
    raise _Useless("it sends us elsewhere")


def _read(message: aiohttp.WSMessage) -> dict[str, Any]:
    if message.type not in {aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY}:
        raise _Useless("the connection ended")
    try:
        found = orjson.loads(message.data)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise _Useless("it did not answer in JSON-RPC")
    return found
