"""A WebSocket on which a node announces new blocks, open as long as it is useful.

Its messages are only hints: an announcement makes the settler poll earlier.
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

from florin_server.rails.connection.jsonrpc import TIMEOUT_S, RpcCall
from florin_server.rails.connection.new_blocks import BlockNotifier

RETRY_S = 1.0
RETRY_MAX_S = 60.0
_MESSAGE_MAX = 1024 * 1024
_HEARTBEAT_S = 20.0  # proxies close connections that are silent for a minute

_log = logging.getLogger(__name__)


class _SubscriptionUnavailable(Exception):  # noqa: N818  (a state of the world, not a mistake)
    """The node does not announce blocks, or stopped announcing them."""


class BlockSubscription:
    """Subscribe by a call, and announce each time the value that `read_mark` reads changes.

    `read_mark` returns None for notifications that it cannot read. Only the host of the URL is ever
    named.
    """

    def __init__(
        self,
        url: str,
        call: RpcCall,
        read_mark: Callable[[Any], Hashable],
        notifier: BlockNotifier,
        *,
        retry_s: float = RETRY_S,
    ) -> None:
        self._url = url
        self._host = urlsplit(url).hostname or "?"
        self._call = call
        self._read_mark = read_mark
        self._notifier = notifier
        self._retry_s = retry_s
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start listening unless it already started."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop listening and close the connection."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except (aiohttp.ClientError, OSError, TimeoutError, _SubscriptionUnavailable) as fault:
                # the text of other errors may contain the URL
                text = (
                    str(fault)
                    if isinstance(fault, _SubscriptionUnavailable)
                    else type(fault).__name__
                )
                _log.warning("%s does not announce blocks: %s", self._host, text)
            finally:
                self._notifier.has_announcements = False
            # poll at once for what happened meanwhile
            self._notifier.announce()
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
            self._notifier.silence_event.clear()
            self._notifier.has_announcements = True
            hears = asyncio.ensure_future(self._follow(socket))
            silent = asyncio.ensure_future(self._notifier.silence_event.wait())
            try:
                await asyncio.wait({hears, silent}, return_when=asyncio.FIRST_COMPLETED)
                if not hears.done():
                    raise _SubscriptionUnavailable("blocks came that it did not announce")
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
            answer = _parse_message(await socket.receive())
        if answer.get("id") != 1 or answer.get("result") is None:
            raise _SubscriptionUnavailable("it refused the subscription")

    async def _follow(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        last: Hashable = None
        while True:
            message = _parse_message(await socket.receive())
            params = message.get("params")
            mark = self._read_mark(params.get("result")) if isinstance(params, dict) else None
            if mark is not None and mark != last:
                # only a node that announces is worth a quick reconnect
                last, self._failures = mark, 0
                self._notifier.announce()


async def _refuse(*_: Any) -> None:
    raise _SubscriptionUnavailable("it sends us elsewhere")


def _parse_message(message: aiohttp.WSMessage) -> dict[str, Any]:
    if message.type not in {aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY}:
        raise _SubscriptionUnavailable("the connection ended")
    try:
        notification = orjson.loads(message.data)
    except orjson.JSONDecodeError:
        notification = None
    if not isinstance(notification, dict):
        raise _SubscriptionUnavailable("it did not answer in JSON-RPC")
    return notification
