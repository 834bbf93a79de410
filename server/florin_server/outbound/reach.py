"""Which network addresses requests may lead to that others name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# what anybody may serve HTTPS on; other ports of strangers are no places to knock at
PUBLIC_PORTS: Final = frozenset({443, 8443})

# `is_global` is true for them, at least in some version of Python, and they lead to other
# addresses, to many, or nowhere: protocols' own, NAT64, 6to4 and its relays, IPv4 in IPv6, Teredo,
# segment routing, documents, multicast, site-local
_MORE: Final = tuple(
    ip_network(one)
    for one in (
        "192.0.0.0/24",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2002::/16",
        "192.88.99.0/24",
        "::/96",
        "2001::/23",
        "3fff::/20",
        "5f00::/16",
        "100:0:0:1::/64",
        "224.0.0.0/4",
        "ff00::/8",
        "fec0::/10",
    )
)


@dataclass(frozen=True, slots=True)
class Reach:
    """Public addresses, and the networks that the operator lists.

    What is listed is reached at any port, and without TLS too.
    """

    networks: tuple[Network, ...] = ()

    @classmethod
    def of(cls, networks: Iterable[str]) -> Reach:
        """The same by networks in CIDR form; ValueError for another form."""
        return cls(tuple(ip_network(one) for one in networks))

    def allows(self, address: str, port: int, *, tls: bool) -> bool:
        """Tells whether an address, in its usual form, may be connected to."""
        try:
            found = ip_address(address)
        except ValueError:
            return False
        if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        if any(found in network for network in self.networks):
            return True
        return tls and port in PUBLIC_PORTS and _is_public(found)


def _is_public(address: Address) -> bool:
    return address.is_global and not any(address in network for network in _MORE)
