"""Paths of a console, and the way back after the sign-in."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from grpc_rest_gateway.plain import PlainRequest

ROOT: Final = "/console"
LOGIN: Final = f"{ROOT}/login"
SESSIONS: Final = f"{ROOT}/sessions"


def get_request_path(request: PlainRequest) -> str:
    """Return the path of a request with its query."""
    query = urlencode(list(request.query))
    return f"{request.path}?{query}" if query else request.path


def parse_return_path(text: str) -> str:
    """Return the path to open after the sign-in: the text, if it is a path of the console."""
    parts = urlsplit(text)
    inside = parts.path == ROOT or parts.path.startswith(f"{ROOT}/")
    plain = text.startswith("/") and not parts.netloc and text.isprintable() and "\\" not in text
    if not (inside and plain) or parts.path == LOGIN:
        return ROOT
    return quote(text, safe="/?&=%:+,.-_~")
