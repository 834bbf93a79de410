"""Cookies of a request."""

from __future__ import annotations

from collections.abc import Iterator

from grpc_rest_gateway.plain import PlainRequest


def list_cookies(request: PlainRequest, name: str) -> Iterator[str]:
    """Yield the values of the cookies with a name; a browser can send several."""
    for value in request.list_header_values(b"cookie"):
        for pair in value.decode("latin-1").split(";"):
            key, _, text = pair.strip().partition("=")
            if key == name:
                yield text
