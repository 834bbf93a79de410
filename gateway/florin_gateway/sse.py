"""Server-sent events: a stream of messages as text/event-stream.

The head of the answer waits for the first message, so that a refusal is still plain JSON and a
stream that ends without one is a 204. A stream that stays silent gets its head after a moment, or
when the server has said who it takes the caller for, if that comes later.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import FIRST_COMPLETED
from collections.abc import Callable
from typing import Any

from florin_gateway.exchange import Send
from florin_gateway.headers import Headers
from florin_gateway.hold import End, Hold, Receive
from florin_gateway.jsoncodec import Encode
from florin_gateway.rpc import CallError, Messages, Metadata
from florin_gateway.settings import GatewaySettings

logger = logging.getLogger(__name__)

_COMMENT = b":\n\n"
# proxies in between must neither hold events back, nor compress them, which holds them back too
_HEAD = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
]
_REPLACED = frozenset(name for name, _ in _HEAD)


class EventStream:
    """One stream under way to one client; where it is `admitted`, no refusal is to come."""

    def __init__(
        self,
        messages: Messages,
        encode: Encode,
        send: Send,
        headers: Callable[[Metadata], Headers],
        settings: GatewaySettings,
        *,
        admitted: bool = False,
    ) -> None:
        self._messages = messages
        self._encode = encode
        self._send = send
        self._headers = headers
        self._settings = settings
        self._event = b"event: %s\n" % settings.stream_event.encode()
        self._admitted = admitted
        self.started = False

    async def run(self, receive: Receive, seconds: float, held: set[Hold]) -> None:
        """Send events until the stream, the time or the client ends.

        CallError, if the stream fails before anything was sent; later failures end the answer and
        the client comes back.
        """
        # one task reads the whole stream: servicers keep context variables between messages
        pump = asyncio.ensure_future(self._pump())
        try:
            with Hold(receive, seconds=seconds, held=held) as wait:
                await asyncio.wait({pump}, timeout=self._settings.stream_head_s)
                if not pump.done():
                    await self._start_silent(pump)
                while not pump.done():
                    await asyncio.wait({pump}, timeout=self._settings.stream_heartbeat_s)
                    if not pump.done():
                        await self._write(_COMMENT)
        finally:
            pump.cancel()
            await asyncio.wait({pump})
            await self._messages.close()
        failure = None if pump.cancelled() else pump.exception()
        if failure is not None and not self.started:
            raise failure
        if failure is not None and not isinstance(failure, CallError):
            logger.error("a stream failed", exc_info=failure)
        if wait.end is End.CLIENT_GONE:
            return
        if not self.started:
            nothing = wait.end is None
            await self._start(await self._messages.metadata(), 204 if nothing else 200)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self) -> None:
        async for message in self._messages:
            if not self.started:
                await self._start(await self._messages.metadata())
            await self._write(self._event_of(message))

    async def _start_silent(self, pump: asyncio.Future[None]) -> None:
        """Send the head of a stream that has nothing to tell yet, once the server took it up.

        Until then a refusal may be on its way. A server that sends nothing ahead is given the time
        of a heartbeat.
        """
        if self._admitted:
            await self._start(())
            return
        ahead = asyncio.ensure_future(self._ahead())
        try:
            timeout_s = self._settings.stream_heartbeat_s
            both: set[asyncio.Future[Any]] = {ahead, pump}
            await asyncio.wait(both, timeout=timeout_s, return_when=FIRST_COMPLETED)
            if not pump.done():
                known = ahead.done() and ahead.exception() is None
                await self._start(ahead.result() if known else ())
        finally:
            ahead.cancel()

    async def _ahead(self) -> Metadata:
        # a back end in this process has no event for it
        while not (metadata := await self._messages.metadata()):  # noqa: ASYNC110
            await asyncio.sleep(self._settings.stream_head_s)
        return metadata

    async def _start(self, metadata: Metadata, status: int = 200) -> None:
        if self.started:
            return
        self.started = True
        head = [h for h in self._headers(metadata) if h[0] != b"content-type"]
        if status == 200:
            head = [*(h for h in head if h[0] not in _REPLACED), *_HEAD]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        if status == 200:
            await self._write(b"retry: %d\n\n" % self._settings.stream_retry_ms)

    async def _write(self, text: bytes) -> None:
        await self._send({"type": "http.response.body", "body": text, "more_body": True})

    def _event_of(self, message: Any) -> bytes:
        version = getattr(message, "version", None)
        identity = b"" if version is None else b"id: %d\n" % version
        return b"%s%sdata: %s\n\n" % (self._event, identity, self._encode(message))
