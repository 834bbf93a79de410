"""Payment links: how they are made, and how the payment id is found in a wallet's text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from florin_server.domain.ids import is_payment_id_shape
from florin_server.domain.urls import is_loopback

SEGMENT_CHARS_MAX = 2048
DECODINGS_MAX = 2
# the query parameter of a link that names its payment
PAYMENT_ID_PARAMETER = "pid"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# two leading slashes would mean a host
_PATH = re.compile(r"(?!//)[A-Za-z0-9._~/-]+")
_HOST = re.compile(r"[a-z0-9.-]+|[0-9a-f:]+")
# URL parsers disagree about these, so that a host could be read in two ways
_AMBIGUOUS = re.compile(r"[\x00-\x20\x7f\\]")


@dataclass(frozen=True, slots=True)
class CheckoutLinks:
    """The base of payment links. `hosts` are the hosts whose links can name a payment."""

    base_url: str
    hosts: frozenset[str]

    def get_url(self, payment_id: str) -> str:
        """Return the checkout link of a payment."""
        return f"{self.base_url}/{payment_id}"

    def get_x402_url(self, payment_id: str) -> str:
        """Return the link by which programs pay a payment (x402)."""
        return f"{self.base_url}/x402/{payment_id}"

    def get_solana_pay_url(self, payment_id: str) -> str:
        """Return the link by which wallets fetch a payment's transaction (Solana Pay).

        It has no query, and so is not encoded: a shorter link gives a simpler code.
        """
        return f"solana:{self.base_url}/solana/{payment_id}"


def resolve_payment_id(
    text: str, pay_hosts: Collection[str], *, decodings: int = DECODINGS_MAX
) -> str:
    """Find the payment id in a bare id, a payment link, a pairing URI or a path.

    Gives the text itself, as received, if it leads to no payment-id shape. `pay_hosts` are host
    names without port; links to other hosts lead nowhere. `decodings` is how often the text may
    still be percent-decoded. Nothing is fetched.
    """
    if is_payment_id_shape(text):
        return text
    if len(text) > SEGMENT_CHARS_MAX:
        return text
    payment_id = _extract_id(_decode_percent(text, decodings), pay_hosts)
    return payment_id if is_payment_id_shape(payment_id) else text


def _decode_percent(text: str, decodings: int) -> str:
    """Decode until a scheme shows or nothing is left; what a link itself encodes stays so."""
    for _ in range(decodings):
        if "%" not in text or _SCHEME.match(text):
            break
        text = unquote(text)
    return text


def _extract_id(text: str, pay_hosts: Collection[str]) -> str:
    scheme = _SCHEME.match(text)
    if scheme is None:
        return _last_segment(text) if _PATH.fullmatch(text) else ""
    if scheme[1].lower() == "wc":
        return _extract_id_from_link(
            _first_value(_parse_query(text.partition("?")[2]), "pay"), pay_hosts
        )
    return _extract_id_from_link(text, pay_hosts)


def _extract_id_from_link(link: str, pay_hosts: Collection[str]) -> str:
    if _AMBIGUOUS.search(link):
        return ""
    try:
        url = urlsplit(link)
        trusted = _is_trusted(url, pay_hosts)
    except ValueError:
        return ""
    if not trusted:
        return ""
    return find_query_id(_parse_query(url.query)) or _last_segment(url.path)


def _is_trusted(url: SplitResult, pay_hosts: Collection[str]) -> bool:
    """Return whether a link is a payment link of Florin. ValueError if its port is invalid."""
    host = url.hostname or ""
    _ = url.port
    if "@" in url.netloc or not _HOST.fullmatch(host):
        return False
    if url.scheme != "https" and not (url.scheme == "http" and _is_local_host(host)):
        return False
    ours = [pay_host.lower() for pay_host in pay_hosts if pay_host]
    return any(host == pay_host or host.endswith(f".{pay_host}") for pay_host in ours)


def _is_local_host(host: str) -> bool:
    return host.endswith(".localhost") or is_loopback(host)


def find_query_id(query: Iterable[tuple[str, str]]) -> str:
    """Return the payment id in a link's query; empty if it has none."""
    return _first_value(query, PAYMENT_ID_PARAMETER)


def _first_value(query: Iterable[tuple[str, str]], name: str) -> str:
    """Return the first value of a query parameter that is not empty; empty without one."""
    return next((value for key, value in query if key == name and value), "")


def _parse_query(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query.partition("#")[0])


def _last_segment(path: str) -> str:
    return next((part for part in reversed(path.split("/")) if part), "")
