"""Who calls when proxies stand between: what they say of it, as far as it can be believed.

Each proxy adds whom it was called by. So a list is read from its end, and only as long as the one
who wrote an entry is trusted: what stands before may be anybody's invention. One header counts and
no other, as proxies hand on what they do not know: a caller would write the other one itself.
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
# not a header of requests: it comes before the first one of a connection
PROXY_PROTOCOL = "proxy-protocol"

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_PORT = r"(?::[\w.-]{1,16})?"
_BRACKETED = re.compile(rf"\[([^\]]*)\]{_PORT}")
_DOTTED = re.compile(rf"([0-9.]+){_PORT}")
# a value without quotes may hold what RFC 7239 wants quoted: some proxies write it so
_PAIR = re.compile(r'[ \t]*(?:([\w!#$%&\'*+.^`|~-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s",;]*)))?[ \t]*')


@dataclass(frozen=True, slots=True)
class Proxies:
    """The proxies in front: their networks, and the one header (in lower case) that they set."""

    networks: tuple[Network, ...] = ()
    header: str = X_FORWARDED_FOR

    def trusts(self, peer: str) -> bool:
        """True for a peer (in gRPC's form) that is one of them."""
        at = address_of(peer.partition(":")[2])
        return at is not None and _among(at, self.networks)

    def client(self, peer: str, listed: Iterable[str]) -> str:
        """The peer, or who called the proxies that it is the last of; both in gRPC's form.

        `listed` are the values of the header, in the order in which they came.
        """
        if not self.networks:
            return peer
        if self.header == FORWARDED:
            entries = _elements(",".join(listed))
        else:
            entries = [entry.strip() for value in listed for entry in value.split(",")]
        at = address_of(peer.partition(":")[2])
        while at is not None and _among(at, self.networks) and entries:
            at = _entry(entries.pop())
            if at is not None:
                peer = spelled((str(at), 0))
        return peer


def spelled(client: tuple[str, int] | None) -> str:
    """Host and port as gRPC writes them; None is a peer on this machine without either."""
    if client is None:
        return "unix:"
    host, port = client[0], client[1]
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"


def is_near(peer: str) -> bool:
    """True for a peer on this machine or in a private network, where proxies are."""
    at = address_of(peer.partition(":")[2])
    return at is not None and at.is_private


def address_of(text: str) -> Address | None:
    """The address of a peer or target, with or without a port and brackets; None without one."""
    host = unquote(text)
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    return parsed(host)


def parsed(host: str) -> Address | None:
    """An address, without the zone that only its own machine knows; None if it is none."""
    try:
        at = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return at.ipv4_mapped or at if isinstance(at, ipaddress.IPv6Address) else at


def _entry(text: str) -> Address | None:
    """The address in an entry of a list, with or without a port; None if it holds another text."""
    if found := _BRACKETED.fullmatch(text):
        at = parsed(found[1])
        return at if ":" in found[1] else None
    if found := _DOTTED.fullmatch(text):
        return parsed(found[1])
    return parsed(text)


def _elements(text: str) -> list[str]:
    """What each element of a Forwarded header says of its `for`; nothing if any is malformed.

    Quotes make it one text: who could leave one open would hide what a proxy wrote behind it.
    """
    found, said, place = [], None, 0
    while (pair := _PAIR.match(text, place)) is not None:
        name, quoted, plain = pair.groups()
        if name is not None and name.lower() == "for":
            if said is not None:
                return []
            said = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        place = pair.end()
        if place < len(text) and text[place] == ";":
            place += 1
            continue
        found.append(said or "")
        said = None
        if place == len(text):
            return found
        if text[place] != ",":
            return []
        place += 1
    return []


def _among(at: Address, trusted: Sequence[Network]) -> bool:
    return any(at in network for network in trusted)
