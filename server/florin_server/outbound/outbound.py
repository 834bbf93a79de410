"""One request to an address that somebody else named.

The host is resolved once, all its addresses are checked, and only what was checked is connected to,
with the host's name in TLS. Redirects are not followed, no cookie is kept, no proxy of the
environment is asked, and every answer has an end: in time, and in what is read of it.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from florin_server.outbound.reach import Reach
from florin_server.outbound.resolver import DnsResolver, Resolver, literal, network_of

_READ_BYTES = 16 * 1024
_HEADER_BYTES = 8 * 1024  # of a line, and of a field


class Fault(StrEnum):
    """Why there was no answer."""

    NOT_ALLOWED = "address_not_allowed"
    UNREACHABLE = "connection_failed"
    TLS = "certificate_refused"
    TIMEOUT = "timeout"
    NO_HTTP = "no_http"


class NoAnswer(Exception):  # noqa: N818  (a state of the world, not a mistake)
    """There was no answer. The text may be shown to whoever named the address.

    It tells nothing of the operator's network: a name that leads there and one that leads nowhere
    are refused in the same words.
    """

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of any status, and the first bytes of its body; `cut` if there were more.

    `retry_after` and `location` are those headers as they came, empty without one.
    """

    status: int
    content_type: str
    body: bytes
    cut: bool
    retry_after: str = ""
    location: str = ""


class AddressBusy(Exception):  # noqa: N818  (a state of the world, not a mistake)
    """As many requests are on their way to an address of the host as may be; none was sent."""


class Outbound:
    """Asks for others. Each request has a connection of its own, so none waits for another's.

    With `per_address`, so many are on their way at a time to each address that hosts resolve to,
    and to each /64 network of IPv6: names are free, and lead wherever their owner wants.
    """

    def __init__(
        self,
        reach: Reach,
        *,
        resolver: Resolver | None = None,
        trust: ssl.SSLContext | None = None,
        per_address: int | None = None,
    ) -> None:
        self._reach = reach
        self._per_address = per_address
        self._under_way: Counter[str] = Counter()
        self._resolver = resolver or DnsResolver()
        self._trust = trust or _of_the_machine()

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes = b"",
        timeout_s: float,
        answer_bytes: int,
    ) -> Answer:
        """Sends one request, and reads so much of its answer; NoAnswer if there was none in time.

        AddressBusy if nothing was sent because an address has as many requests as it may.

        `timeout_s` is for all of it, from the question for the host's address on. It ends the
        reading of a body too: what was read until then is answered.
        """
        asked = _url(url)
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(until) as limit:
                pinned = await self._checked(asked)
                with self._counted(pinned):
                    async with (
                        self._session(pinned) as session,
                        _asked(session, method, asked, headers, body) as response,
                    ):
                        # the status is there, and counts
                        limit.reschedule(None)
                        read, cut = await _first(response, answer_bytes, until)
                        kind = response.headers.get("content-type", "")
                        wait = response.headers.get("retry-after", "")
                        place = response.headers.get("location", "")
                        return Answer(response.status, kind, read, cut, wait, place)
        except TimeoutError:
            raise NoAnswer(Fault.TIMEOUT, f"no answer within {timeout_s:g} s") from None
        except aiohttp.ClientConnectorCertificateError as fault:
            raise NoAnswer(Fault.TLS, _certificate(fault.certificate_error)) from None
        except aiohttp.ClientConnectorSSLError:
            raise NoAnswer(Fault.TLS, "TLS was refused") from None
        except aiohttp.ClientConnectorError:
            raise NoAnswer(Fault.UNREACHABLE, "the connection was refused") from None
        except (aiohttp.ClientError, OSError, ValueError):
            raise NoAnswer(Fault.NO_HTTP, "the connection ended without an HTTP answer") from None

    async def close(self) -> None:
        """Ends what it has open."""
        await self._resolver.close()

    @contextmanager
    def _counted(self, pinned: _Pinned) -> Iterator[None]:
        """Count a request at all addresses that it may go to; AddressBusy if one has no room."""
        if self._per_address is None:
            yield
            return
        networks = {network_of(address) for address in pinned.addresses}
        if any(self._under_way[network] >= self._per_address for network in networks):
            raise AddressBusy
        self._under_way.update(networks)
        try:
            yield
        finally:
            self._under_way.subtract(networks)
            # only what is on its way is kept
            self._under_way = +self._under_way

    async def _checked(self, url: URL) -> _Pinned:
        """The addresses of a host, if all of them are allowed."""
        host, port = url.host or "", url.port or 0
        itself = literal(host)
        found = [itself] if itself else await self._resolver.addresses(host)
        tls = url.scheme == "https"
        if not found or not all(self._reach.allows(one, port, tls=tls) for one in found):
            raise NoAnswer(
                Fault.NOT_ALLOWED, "the host has no public address, or the port is not allowed"
            )
        return _Pinned(found)

    def _session(self, pinned: _Pinned) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=pinned,
            use_dns_cache=False,
            force_close=True,
            limit=1,
            ssl=self._trust,
            socket_factory=pinned.socket,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            read_bufsize=_READ_BYTES,
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )


class _Pinned(AbstractResolver):
    """Tells the addresses that were checked, and opens sockets to no others."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self.addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=one,
                port=port,
                family=socket.AF_INET6 if ":" in one else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for one in self.addresses
            if family in {socket.AF_UNSPEC, socket.AF_INET6 if ":" in one else socket.AF_INET}
        ]

    async def close(self) -> None:
        """It has nothing open."""

    def socket(self, place: Any) -> socket.socket:
        """A socket to connect to one address with."""
        family, kind, protocol, _, address = place
        if address[0] not in self.addresses:
            raise OSError("an address that was not checked")
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        return made


@cache
def _of_the_machine() -> ssl.SSLContext:
    """What the machine trusts, read once: reading it takes 20 ms, and each start has two."""
    return ssl.create_default_context()


def _url(text: str) -> URL:
    try:
        url = URL(text)
        # a host in Punycode is decoded only now
        known = url.scheme in {"http", "https"} and url.host and not (url.user or url.password)
    except ValueError:
        known = None
    if not known:
        raise NoAnswer(Fault.NOT_ALLOWED, "this is no http or https address without a user")
    return url


def _asked(
    session: aiohttp.ClientSession, method: str, url: URL, headers: Mapping[str, str], body: bytes
) -> Any:
    return session.request(
        method,
        url,
        # the session's own defaults would ask for compressed bodies
        headers={"accept-encoding": "identity", **headers},
        data=body or None,
        allow_redirects=False,
    )


async def _first(
    response: aiohttp.ClientResponse, answer_bytes: int, until: float
) -> tuple[bytes, bool]:
    """The first bytes of a body, as many as came in time, and whether there are more."""
    read = bytearray()
    try:
        async with asyncio.timeout_at(until):
            while len(read) <= answer_bytes:
                piece = await response.content.read(_READ_BYTES)
                if not piece:
                    return bytes(read), False
                read += piece
    except (TimeoutError, aiohttp.ClientError):
        return bytes(read[:answer_bytes]), True
    return bytes(read[:answer_bytes]), True


def _certificate(error: Exception) -> str:
    told = getattr(error, "verify_message", "")
    return f"the certificate is refused: {told}" if told else "the certificate is refused"
