"""The network addresses to which requests of other parties can lead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

IpAddress: TypeAlias = IPv4Address | IPv6Address
IpNetwork: TypeAlias = IPv4Network | IPv6Network

# the usual port of HTTPS; other ports of strangers are not contacted
PUBLIC_PORTS: Final = frozenset({443, 8443})

# `is_global` is true for them, at least in some version of Python, and they lead to other
# addresses, to many, or nowhere: protocols' own, NAT64, 6to4 and its relays, IPv4 in IPv6, Teredo,
# segment routing, documents, multicast, site-local
_NOT_PUBLIC: Final = tuple(
    ip_network(network)
    for network in (
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
class AddressPolicy:
    """Public addresses, and the networks that the operator lists.

    What is listed is reached at any port, and without TLS too.
    """

    networks: tuple[IpNetwork, ...] = ()

    @classmethod
    def from_cidrs(cls, networks: Iterable[str]) -> AddressPolicy:
        """Return the policy for networks in CIDR form; ValueError for another form."""
        return cls(tuple(ip_network(network) for network in networks))

    def is_allowed(self, address: str, port: int, *, tls: bool) -> bool:
        """Return whether an address, in its usual form, can be connected to."""
        try:
            ipv4_mapped = ip_address(address)
        except ValueError:
            return False
        if isinstance(ipv4_mapped, IPv6Address) and ipv4_mapped.ipv4_mapped is not None:
            ipv4_mapped = ipv4_mapped.ipv4_mapped
        if any(ipv4_mapped in network for network in self.networks):
            return True
        return tls and port in PUBLIC_PORTS and _is_public(ipv4_mapped)


def _is_public(address: IpAddress) -> bool:
    return address.is_global and not any(address in network for network in _NOT_PUBLIC)
