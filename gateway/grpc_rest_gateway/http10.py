"""Responses to HTTP/1.0, which has no chunks: without a length, they end with the connection."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


def disable_chunking(cycle: RequestResponseCycle) -> None:
    """Send the response to one request without chunks; uvicorn closes the connection after it."""
    send = cycle.send
    measured = False

    async def send_plain(message: Any) -> None:
        nonlocal measured
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message.get("headers", ())}
            measured = b"content-length" in names
            if not measured:
                cycle.chunked_encoding = False
        elif not measured:
            # the length that uvicorn checks against
            cycle.expected_content_length = len(message.get("body", b""))
        await send(message)

    cycle.send = send_plain  # type: ignore[method-assign]
