"""A cheap HTTP/1.1 client: prebuilt requests on persistent connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

Answered = Callable[["HttpConnection", bytes, bytes], None]


def request(method: str, path: str, headers: Mapping[str, str], body: Any = None) -> bytes:
    """Return a request as bytes; the body is sent as JSON."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    content = b""
    if body is not None:
        content = json.dumps(body).encode()
        lines.append("Content-Type: application/json")
    if method != "GET":
        lines.append(f"Content-Length: {len(content)}")
    return "\r\n".join([*lines, "", ""]).encode() + content


class HttpConnection(asyncio.Protocol):
    """One connection with one pending request. `answered` gets the status and the body."""

    def __init__(self, answered: Answered) -> None:
        self._answered = answered
        self._got = b""
        self._size = 0
        self._body_at = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def ask(self, content: bytes) -> None:
        self._transport.write(content)

    def data_received(self, data: bytes) -> None:
        got = self._got = self._got + data if self._got else data
        if not self._size:
            head = got.find(b"\r\n\r\n")
            if head < 0:
                return
            at = got.lower().find(b"content-length:", 0, head)
            if at < 0:
                self.close()  # every expected answer has a length
                return
            self._body_at = head + 4
            self._size = head + 4 + int(got[at + 15 : got.find(b"\r\n", at)])
        if len(got) >= self._size:
            status, body = got[9:12], got[self._body_at : self._size]
            self._got, self._size = b"", 0
            self._answered(self, status, body)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._answered(self, b"", b"")

    def close(self) -> None:
        self._transport.abort()
