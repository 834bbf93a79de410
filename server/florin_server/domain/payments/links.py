"""Payment links: making them, and finding the payment id in whatever a wallet sends for one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from florin_server.domain.ids import is_payment_id_shape
from florin_server.domain.urls import is_loopback

SEGMENT_CHARS_MAX = 2048
DECODINGS_MAX = 2
# the query parameter of a link that names its payment
QUERY_ID = "pid"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# two slashes in front would name a host
_PATH = re.compile(r"(?!//)[A-Za-z0-9._~/-]+")
_HOST = re.compile(r"[a-z0-9.-]+|[0-9a-f:]+")
# URL parsers disagree about these, so that a host could be read in two ways
_AMBIGUOUS = re.compile(r"[\x00-\x20\x7f\\]")


def payment_link(base: str, payment_id: str) -> str:
    """Where a buyer opens a payment; `base` is e.g. `https://pay.example`."""
    return f"{base.rstrip('/')}/{payment_id}"


def resolve_payment_id(
    text: str, pay_hosts: Collection[str], *, decodings: int = DECODINGS_MAX
) -> str:
    """Finds the payment id in a bare id, a payment link, a pairing URI or a path.

    Gives the text itself, as received, if it leads to no payment-id shape. `pay_hosts` are host
    names without port; links to other hosts lead nowhere. `decodings` is how often the text may
    still be percent-decoded. Nothing is fetched.
    """
    if is_payment_id_shape(text):
        return text
    if len(text) > SEGMENT_CHARS_MAX:
        return text
    found = _find(_readable(text, decodings), pay_hosts)
    return found if is_payment_id_shape(found) else text


def _readable(text: str, decodings: int) -> str:
    """Decodes until a scheme shows or nothing is left; what a link itself encodes stays so."""
    for _ in range(decodings):
        if "%" not in text or _SCHEME.match(text):
            break
        text = unquote(text)
    return text


def _find(text: str, pay_hosts: Collection[str]) -> str:
    scheme = _SCHEME.match(text)
    if scheme is None:
        return _last_segment(text) if _PATH.fullmatch(text) else ""
    if scheme[1].lower() == "wc":
        return _in_link(_value(_pairs(text.partition("?")[2]), "pay"), pay_hosts)
    return _in_link(text, pay_hosts)


def _in_link(link: str, pay_hosts: Collection[str]) -> str:
    if _AMBIGUOUS.search(link):
        return ""
    try:
        url = urlsplit(link)
        trusted = _is_trusted(url, pay_hosts)
    except ValueError:
        return ""
    if not trusted:
        return ""
    return query_id(_pairs(url.query)) or _last_segment(url.path)


def _is_trusted(url: SplitResult, pay_hosts: Collection[str]) -> bool:
    """Tells whether a link is one of ours. ValueError if its port is no port."""
    host = url.hostname or ""
    _ = url.port
    if "@" in url.netloc or not _HOST.fullmatch(host):
        return False
    if url.scheme != "https" and not (url.scheme == "http" and _is_near(host)):
        return False
    ours = [pay_host.lower() for pay_host in pay_hosts if pay_host]
    return any(host == pay_host or host.endswith(f".{pay_host}") for pay_host in ours)


def _is_near(host: str) -> bool:
    return host.endswith(".localhost") or is_loopback(host)


def query_id(query: Iterable[tuple[str, str]]) -> str:
    """The payment id in a link's query; empty if there is none."""
    return _value(query, QUERY_ID)


def _value(query: Iterable[tuple[str, str]], name: str) -> str:
    """The first value of a query parameter that is not empty; empty if there is none."""
    return next((value for key, value in query if key == name and value), "")


def _pairs(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query.partition("#")[0])


def _last_segment(path: str) -> str:
    return next((part for part in reversed(path.split("/")) if part), "")
