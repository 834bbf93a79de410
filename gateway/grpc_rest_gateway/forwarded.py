"""Find the client behind proxies, as far as their headers can be trusted.

Each proxy appends the address that called it. So the list is read from its end, and only while the
author of an entry is trusted: earlier entries can be forged. Exactly one header counts, because
proxies forward headers that they do not know: a caller could send the other one.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote

X_FORWARDED_FOR = "x-forwarded-for"
FORWARDED = "forwarded"
# not a request header: it precedes the first request of a connection
PROXY_PROTOCOL = "proxy-protocol"

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_PORT = r"(?::[\w.-]{1,16})?"
_BRACKETED = re.compile(rf"\[([^\]]*)\]{_PORT}")
_DOTTED = re.compile(rf"([0-9.]+){_PORT}")
# accept unquoted values that RFC 7239 wants quoted: some proxies send them
_PAIR = re.compile(r'[ \t]*(?:([\w!#$%&\'*+.^`|~-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s",;]*)))?[ \t]*')


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """The proxies in front: their networks, and the one header (in lower case) that they set."""

    networks: tuple[Network, ...] = ()
    header: str = X_FORWARDED_FOR

    def is_trusted(self, peer: str) -> bool:
        """Return True if the peer (in gRPC's form) is a trusted proxy."""
        at = find_address(peer.partition(":")[2])
        return at is not None and _is_in_networks(at, self.networks)

    def get_client(self, peer: str, header_values: Iterable[str]) -> str:
        """Return the client behind trusted proxies, else the peer; both in gRPC's form.

        `header_values` are the values of the header, in the order of arrival.
        """
        if not self.networks:
            return peer
        if self.header == FORWARDED:
            entries = _parse_forwarded(",".join(header_values))
        else:
            entries = [entry.strip() for value in header_values for entry in value.split(",")]
        at = find_address(peer.partition(":")[2])
        while at is not None and _is_in_networks(at, self.networks) and entries:
            at = _parse_entry(entries.pop())
            if at is not None:
                peer = format_peer((str(at), 0))
        return peer


def format_peer(client: tuple[str, int] | None) -> str:
    """Return host and port in gRPC's form; None is a peer on this machine without either."""
    if client is None:
        return "unix:"
    host, port = client[0], client[1]
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"


def is_private_peer(peer: str) -> bool:
    """Return True for a peer on this machine or in a private network, where proxies run."""
    at = find_address(peer.partition(":")[2])
    return at is not None and at.is_private


def find_address(text: str) -> Address | None:
    """Return the address of a peer or target, with or without port and brackets.

    Return None if the text has no address.
    """
    host = unquote(text)
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    return parse_address(host)


def parse_address(host: str) -> Address | None:
    """Parse an address, without its local zone; return None if the text is no address."""
    try:
        at = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return at.ipv4_mapped or at if isinstance(at, ipaddress.IPv6Address) else at


def _parse_entry(text: str) -> Address | None:
    """Return the address in a list entry, with or without a port; None for any other text."""
    if match := _BRACKETED.fullmatch(text):
        at = parse_address(match[1])
        return at if ":" in match[1] else None
    if match := _DOTTED.fullmatch(text):
        return parse_address(match[1])
    return parse_address(text)


def _parse_forwarded(text: str) -> list[str]:
    """Return the `for` value of each element of a Forwarded header; empty if any is malformed.

    Quotes can span elements: a caller that leaves a quote open would hide the entry that a proxy
    appends.
    """
    nodes, node, place = [], None, 0
    while (pair := _PAIR.match(text, place)) is not None:
        name, quoted, plain = pair.groups()
        if name is not None and name.lower() == "for":
            if node is not None:
                return []
            node = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        place = pair.end()
        if place < len(text) and text[place] == ";":
            place += 1
            continue
        nodes.append(node or "")
        node = None
        if place == len(text):
            return nodes
        if text[place] != ",":
            return []
        place += 1
    return []


def _is_in_networks(address: Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)
