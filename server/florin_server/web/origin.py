"""The site that sent a form, according to the browser."""

from __future__ import annotations

from collections.abc import Container
from typing import Final
from urllib.parse import urlsplit

from grpc_rest_gateway.plain import PlainRequest

# `none` means that the user started it: a typed address, a reloaded page
_SAME_SITES: Final = frozenset({"same-origin", "none"})


def is_same_site_form(request: PlainRequest, hosts: Container[str]) -> bool | None:
    """Return True if a browser sent a request from a page of this site, False if from another one.

    None if nothing says so: programs send neither `Origin` nor `Sec-Fetch-Site`. `hosts` are the
    names by which buyers reach this site. `Origin: null` alone is another site: any site can
    send it from a sandboxed frame, and our pages send their origin (`Referrer-Policy`).
    """
    site, origin = request.get_header(b"sec-fetch-site"), request.get_header(b"origin")
    if not site and not origin:
        return None
    if site and site not in _SAME_SITES:
        return False
    if origin in {"", "null"}:
        return bool(site)
    try:
        sender = urlsplit(origin)
        return sender.netloc == request.get_header(b"host") or sender.hostname in hosts
    except ValueError:
        return False
