"""Network addresses of callers, as limits count them."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from urllib.parse import unquote

# what one customer of a provider gets: single addresses of it cost nothing
_IPV6_PREFIX = 64
_KEPT = 10_000


def network_of(peer: str) -> str:
    """Who a peer in gRPC's form is, without its port; an IPv6 network counts as one address."""
    # a caller has a port for each connection
    return _network_at(peer.rpartition(":")[0] or peer)


@lru_cache(maxsize=_KEPT)
def _network_at(place: str) -> str:
    kind, _, rest = place.partition(":")
    host = unquote(rest).strip("[]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        # a local socket, or a form that nobody can choose
        return kind
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
        address = address.ipv4_mapped
    return str(address)
