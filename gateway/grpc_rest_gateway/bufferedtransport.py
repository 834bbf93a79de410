"""The transport under the guard: fewer system calls, and no responses lost on close."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LINGER_S = 1.0


class BufferedTransport:
    """A transport that joins all writes of one turn of the event loop.

    uvicorn writes head and body separately; one system call instead of two nearly doubles the rate.
    """

    __slots__ = ("_has_unread_body", "_is_lingering", "_loop", "_parts", "_transport")

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        has_unread_body: Callable[[], bool],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._has_unread_body = has_unread_body
        self._parts: list[bytes] = []
        self._is_lingering = False

    def is_closing(self) -> bool:
        """Return True once no more data is accepted."""
        return self._is_lingering or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Send the data at the end of this turn of the event loop."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Send the remaining data, then close.

        Closing with unread data resets the connection, and the client can lose the response. So a
        client that is still sending gets a moment to read it.
        """
        self._flush()
        if self._is_lingering or self.is_closing():
            return
        if self._has_unread_body() and self._transport.can_write_eof():
            self._is_lingering = True
            self._transport.write_eof()
            self._loop.call_later(LINGER_S, self._transport.close)
        else:
            self._transport.close()

    def _flush(self) -> None:
        if self._parts and not self._transport.is_closing():
            self._transport.write(b"".join(self._parts))
        self._parts.clear()
