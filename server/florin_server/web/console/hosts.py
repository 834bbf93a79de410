"""Where a console is reached: each session on plain HTTP has a host name of its own.

Browsers send the cookies of a host to every port of it, so that any other program on this machine
could read a session of `127.0.0.1`, `localhost` or `console.localhost`. A host name that is random
for each session is known to its browser and to Florin only. Names below `localhost` are this
machine in browsers (RFC 6761).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from urllib.parse import urlsplit

from florin_gateway.plain import PlainRequest

from florin_server.domain.urls import is_loopback

ENTRY = "console.localhost"
_LABEL_BYTES = 16
_OWN = re.compile(r"[0-9a-f]{32}\.console\.localhost")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]*)(:[0-9]{1,5})?")


class Place(Enum):
    """What a request may do by the name that it came by."""

    TLS = "sign in and stay: its cookies go to no other host, and nowhere in plain text"
    ENTRY = "sign in"
    OWN = "be in a session"
    NEAR = "be led to the sign-in"
    FAR = "nothing"


def place_of(request: PlainRequest, base: str = "") -> Place:
    """Tell where a request came to; `base` is the configured address of links.

    A proxy may take TLS off without saying so: the host of an `https` base counts as TLS.
    """
    name, port = _split(request)
    public = urlsplit(base)
    if request.scheme == "https" or (public.scheme == "https" and public.netloc == name + port):
        return Place.TLS
    if name == ENTRY:
        return Place.ENTRY
    if _OWN.fullmatch(name):
        return Place.OWN
    is_near = not name or is_loopback(name.strip("[]"))
    return Place.NEAR if is_near else Place.FAR


def name_of(request: PlainRequest) -> str:
    """Return the host name that a request came by, in lower case and without the port."""
    return _split(request)[0]


def new_name(randbytes: Callable[[int], bytes]) -> str:
    """Return the host name of a new session, of 128 random bits."""
    return f"{randbytes(_LABEL_BYTES).hex()}.{ENTRY}"


def address(name: str, request: PlainRequest) -> str:
    """Return the origin of a name of this machine, at the port of a request."""
    return f"http://{name}{_split(request)[1]}"


def forms(request: PlainRequest, place: Place) -> str:
    """Return the sources that forms may lead to beside their own, for `form-action`.

    Browsers hold redirects after a form against it too: from the sign-in to the session's host,
    and from there back to the sign-in.
    """
    if place is Place.ENTRY:
        return " " + address(f"*.{ENTRY}", request)
    return " " + address(ENTRY, request) if place is Place.OWN else ""


def _split(request: PlainRequest) -> tuple[str, str]:
    found = _HOST.fullmatch(request.header(b"host").lower())
    return (found[1], found[2] or "") if found else ("?", "")
