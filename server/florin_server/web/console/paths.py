"""Paths of a console, redirects to them, and the way back after the sign-in."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from grpc_rest_gateway.plain import PlainRequest, PlainResponse

from florin_server.web.console.session import HttpHeader
from florin_server.web.language import PARAMETER
from florin_server.web.render import build_security_headers

ROOT: Final = "/console"
LOGIN: Final = f"{ROOT}/login"
SESSIONS: Final = f"{ROOT}/sessions"
# the referrer policy makes browsers send an origin with forms, which are checked against it
HEADERS: Final = (
    *((name, value) for name, value in build_security_headers() if name != b"referrer-policy"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


def redirect(path: str, *headers: HttpHeader) -> PlainResponse:
    """Return a redirect to a path of this host or an address."""
    return PlainResponse(303, b"", "text/plain", ((b"location", path.encode()), *headers, *HEADERS))


def build_sign_in_path(back: str, language: str) -> str:
    """Return the path of the sign-in, which then opens `back`; both can be empty."""
    values = {"back": back, PARAMETER: language}
    query = urlencode({name: value for name, value in values.items() if value})
    return f"{LOGIN}?{query}" if query else LOGIN


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
