"""Forms of web pages: their media type and size, and the site that sent one, by its browser."""

from __future__ import annotations

from collections.abc import Container
from typing import Final
from urllib.parse import urlsplit

from grpc_rest_gateway.plain import PlainRequest

FORM_TYPE: Final = "application/x-www-form-urlencoded"
# hundreds of times the size of a name and two places; the limit of wallets' gateway calls
FORM_BYTES_MAX: Final = 64 * 1024
# `none` means that the user started it: a typed address, a reloaded page
_SAME_SITES: Final = frozenset({"same-origin", "none"})
# empty: a browser that does not send the header
_LINKING_SITES: Final = frozenset({"", "same-site", "same-origin"})


def get_media_type(request: PlainRequest) -> str:
    """Return the media type of a body in lower case, without parameters; empty if not named."""
    return request.get_header(b"content-type").partition(";")[0].strip().lower()


def is_same_site_form(request: PlainRequest, hosts: Container[str]) -> bool | None:
    """Return True if a browser sent a request from a page of this site, False if from another one.

    None if nothing says so: programs send neither `Origin` nor `Sec-Fetch-Site`. `hosts` are the
    names by which buyers reach this site. `Origin: null` alone is another site: any site can
    send it from a sandboxed frame, and our pages send their origin (`Referrer-Policy`).
    """
    site, origin = _get_site(request), request.get_header(b"origin")
    if not site and not origin:
        return None
    if site and site not in _SAME_SITES:
        return False
    if origin in {"", "null"}:
        return bool(site)
    return _is_own_origin(request, origin, hosts)


def is_same_origin_form(request: PlainRequest) -> bool:
    """Return False if another origin sent a request, or if nothing says where it is from."""
    site = _get_site(request)
    if site:
        return site == "same-origin"
    return _is_own_origin(request, request.get_header(b"origin"), ())


def is_same_site_link(request: PlainRequest) -> bool:
    """Return False if a page of another site, or the user, opened an address."""
    return _get_site(request) in _LINKING_SITES


def _get_site(request: PlainRequest) -> str:
    return request.get_header(b"sec-fetch-site")


def _is_own_origin(request: PlainRequest, origin: str, hosts: Container[str]) -> bool:
    try:
        sender = urlsplit(origin)
        own = sender.netloc == request.get_header(b"host") or sender.hostname in hosts
    except ValueError:
        return False
    return bool(origin) and own
