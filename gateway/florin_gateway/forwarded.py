"""Who calls when proxies stand between: what X-Forwarded-For says, as far as it can be believed.

Each proxy appends whom it was called by. So the list is read from its end, and only as long as the
one who wrote an entry is trusted: what stands before may be anybody's invention.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import TypeAlias
from urllib.parse import unquote

HEADER = "x-forwarded-for"

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


def client_of(peer: str, listed: Iterable[str], trusted: Sequence[Network]) -> str:
    """The peer, or who called the trusted proxies that it is the last of; both in gRPC's form.

    `listed` are the values of the header, in the order in which they came.
    """
    if not trusted:
        return peer
    entries = [entry.strip() for value in listed for entry in value.split(",")]
    at = address_of(peer.partition(":")[2])
    while at is not None and _among(at, trusted) and entries:
        at = address_of(entries.pop())
        if at is not None:
            peer = f"ipv6:[{at}]:0" if at.version == 6 else f"ipv4:{at}:0"
    return peer


def is_near(peer: str) -> bool:
    """True for a peer on this machine or in a private network, where proxies are."""
    at = address_of(peer.partition(":")[2])
    return at is not None and at.is_private


def address_of(text: str) -> Address | None:
    """The address in a text, with or without a port and brackets; None if there is none."""
    host = unquote(text)
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        at = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return at.ipv4_mapped or at if isinstance(at, ipaddress.IPv6Address) else at


def _among(at: Address, trusted: Sequence[Network]) -> bool:
    return any(at in network for network in trusted)
