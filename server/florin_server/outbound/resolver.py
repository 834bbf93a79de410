"""Names of hosts to addresses, without a thread: a name server that hangs delays nobody else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Protocol

import aiodns

# a name has few addresses that are ever tried
_ADDRESSES_MAX = 8


class Resolver(Protocol):
    """Who tells the addresses of a host."""

    async def addresses(self, host: str) -> list[str]:
        """All addresses of a host, none if it has none."""

    async def close(self) -> None:
        """Ends what it has open."""


class DnsResolver:
    """Asks name servers, anew each time; the machine's own list of hosts counts.

    They are the machine's, unless others are named (address, or address:port).
    """

    def __init__(self, servers: Sequence[str] = ()) -> None:
        self._servers = servers
        self._dns: aiodns.DNSResolver | None = None

    async def addresses(self, host: str) -> list[str]:
        """All addresses of a host, none if it has none; more than a few count as none."""
        if self._dns is None:
            self._dns = aiodns.DNSResolver(self._servers, asyncio.get_running_loop())
        try:
            told = await self._dns.getaddrinfo(
                host, family=socket.AF_UNSPEC, type=socket.SOCK_STREAM
            )
        except (aiodns.error.DNSError, UnicodeError):
            return []
        found = {node.addr[0].decode("ascii") for node in told.nodes}
        return sorted(found) if len(found) <= _ADDRESSES_MAX else []

    async def close(self) -> None:
        """Ends what it has open."""
        if self._dns is not None:
            dns, self._dns = self._dns, None
            await dns.close()


def literal(host: str) -> str | None:
    """The address that a host is itself; None for a name."""
    try:
        return str(ip_address(host))
    except ValueError:
        return None


def network_of(address: str) -> str:
    """Return what counts as one receiver: an IPv4 address, or the /64 network of an IPv6 one."""
    # a zone names an interface of this machine, not another receiver
    known = ip_address(address.partition("%")[0])
    if isinstance(known, IPv6Address):
        if known.ipv4_mapped is None:
            return str(IPv6Network((int(known) >> 64 << 64, 64)))
        known = known.ipv4_mapped
    return str(known)
