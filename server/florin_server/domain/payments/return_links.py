"""Links back to the app or the site that opened a payment link, checked by their form."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from florin_server.domain.urls import URL_CHARS_MAX, add_query_parameter, is_https_url

# schemes that run scripts, open files, show content of the link itself, or start any app
_DANGEROUS: Final = frozenset(
    {
        "about",
        "android-app",
        "blob",
        "content",
        "data",
        "file",
        "filesystem",
        "ftp",
        "http",
        "intent",
        "javascript",
        "jar",
        "mailto",
        "resource",
        "sms",
        "tel",
        "vbscript",
        "view-source",
        "ws",
        "wss",
    }
)
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{0,63}")
# characters of URLs (RFC 3986); others are percent-encoded in a valid one
_APP_URL: Final = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]{0,63}):[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*"
)


@dataclass(frozen=True, slots=True)
class ReturnLink:
    """A link back. With `needs_tap` only the buyer opens it; a page never does so itself."""

    href: str
    needs_tap: bool


@dataclass(frozen=True, slots=True)
class ReturnPolicy:
    """The links that a merchant's payments can return to.

    `targets` are the only ones: schemes of apps, and https origins. With None, https and the
    schemes of apps that have a dot or are in `schemes`. Pages open links to `own_urls`, which the
    merchant gave, without a tap.
    """

    schemes: Collection[str] = ()
    targets: Collection[str] | None = None
    own_urls: Collection[str] = ()


def is_return_target(text: str) -> bool:
    """Return whether a text is a scheme of an app, or an https origin without a path."""
    if _SCHEME.fullmatch(text):
        return is_app_scheme(text)
    return is_https_url(text) and _get_origin(text) == text


def is_app_scheme(scheme: str) -> bool:
    """Return whether a scheme can be that of an app, in lower case."""
    return _SCHEME.fullmatch(scheme) is not None and scheme not in _DANGEROUS | {"https"}


def find_return_link(url: str, payment_id: str, policy: ReturnPolicy) -> ReturnLink | None:
    """Return the link of a `returnUrl` with the payment's id; None if it is not allowed."""
    if is_https_url(url):
        origin = _get_origin(url)
        if policy.targets is not None and origin not in policy.targets:
            return None
        # anyone can make a link with a `returnUrl`
        own = {*(policy.targets or ()), *map(_get_origin, policy.own_urls)}
        return ReturnLink(_add_payment_id(url, payment_id), needs_tap=origin not in own)
    match = _APP_URL.fullmatch(url) if len(url) <= URL_CHARS_MAX else None
    scheme = match[1].lower() if match else ""
    if not is_app_scheme(scheme):
        return None
    if policy.targets is None:
        is_allowed = "." in scheme or scheme in policy.schemes
    else:
        is_allowed = scheme in policy.targets
    if not is_allowed:
        return None
    return ReturnLink(_add_payment_id(url, payment_id), needs_tap=True)


def _add_payment_id(url: str, payment_id: str) -> str:
    return add_query_parameter(url, "payment_id", payment_id)


def _get_origin(url: str) -> str:
    """Return scheme, host and port of a valid https URL; the port only if it is not usual."""
    parts = urlsplit(url)
    port = "" if parts.port in {None, 443} else f":{parts.port}"
    host = parts.hostname or ""
    return f"https://{f'[{host}]' if ':' in host else host}{port}"
