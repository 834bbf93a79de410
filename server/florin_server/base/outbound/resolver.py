"""Resolves host names without a thread: a name server that hangs delays no other request."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Protocol

import aiodns

# more addresses of a name are never tried
_ADDRESSES_MAX = 8


class HostResolver(Protocol):
    """Resolves the addresses of a host."""

    async def resolve(self, host: str) -> list[str]:
        """Return all addresses of a host, none if it has none."""

    async def close(self) -> None:
        """End what it has open."""


class DnsResolver:
    """Asks name servers each time; the machine's own list of hosts applies.

    They are the machine's, unless others are named (address, or address:port).
    """

    def __init__(self, servers: Sequence[str] = ()) -> None:
        self._servers = servers
        self._dns: aiodns.DNSResolver | None = None

    async def resolve(self, host: str) -> list[str]:
        """Return all addresses of a host, none if it has none; more than a few count as none."""
        if self._dns is None:
            self._dns = aiodns.DNSResolver(self._servers, asyncio.get_running_loop())
        try:
            addr_info_result = await self._dns.getaddrinfo(
                host, family=socket.AF_UNSPEC, type=socket.SOCK_STREAM
            )
        except (aiodns.error.DNSError, UnicodeError):
            return []
        addresses = {node.addr[0].decode("ascii") for node in addr_info_result.nodes}
        return sorted(addresses) if len(addresses) <= _ADDRESSES_MAX else []

    async def close(self) -> None:
        """End what it has open."""
        if self._dns is not None:
            dns, self._dns = self._dns, None
            await dns.close()


def find_ip_literal(host: str) -> str | None:
    """Return the address that a host is itself; None for a name."""
    try:
        return str(ip_address(host))
    except ValueError:
        return None


def get_network(address: str) -> str:
    """Return what counts as one receiver: an IPv4 address, or the /64 network of an IPv6 one."""
    # a zone names an interface of this machine, not another receiver
    ipv4_mapped = ip_address(address.partition("%")[0])
    if isinstance(ipv4_mapped, IPv6Address):
        if ipv4_mapped.ipv4_mapped is None:
            return str(IPv6Network((int(ipv4_mapped) >> 64 << 64, 64)))
        ipv4_mapped = ipv4_mapped.ipv4_mapped
    return str(ipv4_mapped)
