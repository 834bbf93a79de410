"""Network addresses of callers, as limits count them."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from urllib.parse import unquote

# the network of one customer of a provider: its single addresses cost nothing
_IPV6_PREFIX = 64
_CACHED_MAX = 10_000


def get_peer_network(peer: str) -> str:
    """Return the network of a gRPC peer, without its port; an IPv6 network is one address."""
    # a caller has a port per connection
    return _parse_network(peer.rpartition(":")[0] or peer)


def get_peer_address(peer: str) -> str:
    """Return the address of a gRPC peer, without its port; the kind of a local peer."""
    kind, _, rest = (peer.rpartition(":")[0] or peer).partition(":")
    try:
        return str(ipaddress.ip_address(unquote(rest).strip("[]")))
    except ValueError:
        return kind


@lru_cache(maxsize=_CACHED_MAX)
def _parse_network(place: str) -> str:
    kind, _, rest = place.partition(":")
    host = unquote(rest).strip("[]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        # a local socket, or a form that callers cannot choose
        return kind
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
        address = address.ipv4_mapped
    return str(address)
