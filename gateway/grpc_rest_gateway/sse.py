"""Server-sent events: a stream of messages as text/event-stream.

The head of the response waits for the first message, so that an error is still plain JSON and a
stream without a message is a 204. A silent stream gets its head after a moment, or when the server
has accepted the caller, if that comes later.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import FIRST_COMPLETED
from collections.abc import Callable
from typing import Any

from grpc_rest_gateway.exchange import Send
from grpc_rest_gateway.headers import Headers
from grpc_rest_gateway.jsoncodec import JsonEncoder
from grpc_rest_gateway.requestwait import Receive, RequestWait, WaitEnd
from grpc_rest_gateway.rpc import CallError, MessageStream, Metadata
from grpc_rest_gateway.settings import GatewaySettings

logger = logging.getLogger(__name__)

_COMMENT = b":\n\n"
# proxies must not buffer events, and compression makes them buffer
_HEAD_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
]
_REPLACED_NAMES = frozenset(name for name, _ in _HEAD_HEADERS)


class EventStream:
    """One stream to one client; once `is_admitted`, no error response can follow."""

    def __init__(
        self,
        messages: MessageStream,
        encode: JsonEncoder,
        send: Send,
        build_headers: Callable[[Metadata], Headers],
        settings: GatewaySettings,
        *,
        is_admitted: bool = False,
    ) -> None:
        self._messages = messages
        self._encode = encode
        self._send = send
        self._build_headers = build_headers
        self._settings = settings
        self._event_line = b"event: %s\n" % settings.stream_event.encode()
        self._is_admitted = is_admitted
        self.has_started = False

    async def run(self, receive: Receive, timeout_s: float, waits: set[RequestWait]) -> None:
        """Send events until the stream, the time or the client ends.

        Raise CallError if the stream fails before anything was sent. Later failures end the
        response, and the client reconnects.
        """
        # one task reads the whole stream: servicers keep context variables between messages
        pump = asyncio.ensure_future(self._send_messages())
        try:
            with RequestWait(receive, timeout_s=timeout_s, waits=waits) as wait:
                await asyncio.wait({pump}, timeout=self._settings.stream_head_s)
                if not pump.done():
                    await self._send_head_of_silent_stream(pump)
                while not pump.done():
                    await asyncio.wait({pump}, timeout=self._settings.stream_heartbeat_s)
                    if not pump.done():
                        await self._write(_COMMENT)
        finally:
            pump.cancel()
            await asyncio.wait({pump})
            await self._messages.close()
        failure = None if pump.cancelled() else pump.exception()
        if failure is not None and not self.has_started:
            raise failure
        if failure is not None and not isinstance(failure, CallError):
            logger.error("stream failed", exc_info=failure)
        if wait.end is WaitEnd.CLIENT_GONE:
            return
        if not self.has_started:
            nothing = wait.end is None
            await self._send_head(await self._messages.metadata(), 204 if nothing else 200)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_messages(self) -> None:
        async for message in self._messages:
            if not self.has_started:
                await self._send_head(await self._messages.metadata())
            await self._write(self._format_event(message))

    async def _send_head_of_silent_stream(self, pump: asyncio.Future[None]) -> None:
        """Send the head of a stream without messages, once the server has accepted the call.

        Until then an error can follow. A server that sends nothing ahead gets the time of a
        heartbeat.
        """
        if self._is_admitted:
            await self._send_head(())
            return
        ahead = asyncio.ensure_future(self._wait_initial_metadata())
        try:
            timeout_s = self._settings.stream_heartbeat_s
            both: set[asyncio.Future[Any]] = {ahead, pump}
            await asyncio.wait(both, timeout=timeout_s, return_when=FIRST_COMPLETED)
            if not pump.done():
                is_ready = ahead.done() and ahead.exception() is None
                await self._send_head(ahead.result() if is_ready else ())
        finally:
            ahead.cancel()

    async def _wait_initial_metadata(self) -> Metadata:
        # a backend in this process has no event for it
        while not (metadata := await self._messages.metadata()):  # noqa: ASYNC110
            await asyncio.sleep(self._settings.stream_head_s)
        return metadata

    async def _send_head(self, metadata: Metadata, status: int = 200) -> None:
        if self.has_started:
            return
        self.has_started = True
        head = [h for h in self._build_headers(metadata) if h[0] != b"content-type"]
        if status == 200:
            head = [*(h for h in head if h[0] not in _REPLACED_NAMES), *_HEAD_HEADERS]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        if status == 200:
            await self._write(b"retry: %d\n\n" % self._settings.stream_retry_ms)

    async def _write(self, text: bytes) -> None:
        await self._send({"type": "http.response.body", "body": text, "more_body": True})

    def _format_event(self, message: Any) -> bytes:
        version = getattr(message, "version", None)
        identity = b"" if version is None else b"id: %d\n" % version
        return b"%s%sdata: %s\n\n" % (self._event_line, identity, self._encode(message))
