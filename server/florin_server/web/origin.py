"""Where a form was sent from, as its browser says."""

from __future__ import annotations

from collections.abc import Container
from typing import Final
from urllib.parse import urlsplit

from florin_gateway.plain import PlainRequest

# what a browser calls `none` its user began: an address that was typed, a page loaded again
_OWN_SITES: Final = frozenset({"same-origin", "none"})


def is_own_form(request: PlainRequest, hosts: Container[str]) -> bool | None:
    """Return True if a browser sent a request from a page of this site, False if from another one.

    None if nothing says so: programs send neither `Origin` nor `Sec-Fetch-Site`. `hosts` are the
    names under which buyers know this site. `Origin: null` alone is another site: a sandboxed
    frame can be anybody's, and our pages tell their origin to themselves (`Referrer-Policy`).
    """
    site, origin = request.header(b"sec-fetch-site"), request.header(b"origin")
    if not site and not origin:
        return None
    if site and site not in _OWN_SITES:
        return False
    if origin in {"", "null"}:
        return bool(site)
    try:
        sender = urlsplit(origin)
        return sender.netloc == request.header(b"host") or sender.hostname in hosts
    except ValueError:
        return False
