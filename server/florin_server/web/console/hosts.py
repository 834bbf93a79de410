"""Host names of a console: each session on plain HTTP has its own.

Browsers send the cookies of a host to each of its ports. Any other program on this machine could
thus read a session of `127.0.0.1`, `localhost` or `console.localhost`. The random host name of a
session is known to its browser and to Florin only. Browsers resolve names below `localhost` to this
machine (RFC 6761).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from urllib.parse import urlsplit

from grpc_rest_gateway.plain import PlainRequest

from florin_server.domain.urls import is_loopback

ENTRY = "console.localhost"
_LABEL_BYTES = 16
_SESSION_HOST = re.compile(r"[0-9a-f]{32}\.console\.localhost")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]*)(:[0-9]{1,5})?")


class HostKind(Enum):
    """The kinds of host names; the value says what a request by such a name can do."""

    TLS = "sign in and stay: its cookies go to no other host, and never over plain HTTP"
    SIGN_IN = "sign in"
    SESSION = "be in a session"
    LOOPBACK = "be redirected to the sign-in"
    REMOTE = "nothing"


def classify_host(request: PlainRequest, base_url: str = "") -> HostKind:
    """Return the kind of host that a request addressed; links use `base_url`.

    A proxy can terminate TLS without a header: the host of an `https` base counts as TLS.
    """
    name, port = _split_host(request)
    public = urlsplit(base_url)
    if request.scheme == "https" or (public.scheme == "https" and public.netloc == name + port):
        return HostKind.TLS
    if name == ENTRY:
        return HostKind.SIGN_IN
    if _SESSION_HOST.fullmatch(name):
        return HostKind.SESSION
    is_near = not name or is_loopback(name.strip("[]"))
    return HostKind.LOOPBACK if is_near else HostKind.REMOTE


def get_host_name(request: PlainRequest) -> str:
    """Return the host name of a request, in lower case and without the port."""
    return _split_host(request)[0]


def create_host_name(randbytes: Callable[[int], bytes]) -> str:
    """Return the host name of a new session, of 128 random bits."""
    return f"{randbytes(_LABEL_BYTES).hex()}.{ENTRY}"


def build_origin(name: str, request: PlainRequest) -> str:
    """Return the origin of a host name at the port of a request."""
    return f"http://{name}{_split_host(request)[1]}"


def get_form_sources(request: PlainRequest, host_kind: HostKind) -> str:
    """Return the additional sources of `form-action`.

    Browsers check redirects after a form against it too: from the sign-in to the session's host,
    and from there back to the sign-in.
    """
    if host_kind is HostKind.SIGN_IN:
        return " " + build_origin(f"*.{ENTRY}", request)
    return " " + build_origin(ENTRY, request) if host_kind is HostKind.SESSION else ""


def _split_host(request: PlainRequest) -> tuple[str, str]:
    match = _HOST.fullmatch(request.get_header(b"host").lower())
    return (match[1], match[2] or "") if match else ("?", "")
