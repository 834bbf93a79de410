"""One request to a URL of another party.

The host is resolved once, all its addresses are checked, and the client connects only to checked
ones, with the host's name in TLS. Redirects are not followed, cookies are not kept, proxies of the
environment are not used, and every response is bounded in time and size.
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

from florin_server.base.outbound.address_policy import AddressPolicy
from florin_server.base.outbound.resolver import (
    DnsResolver,
    HostResolver,
    find_ip_literal,
    get_network,
)

_READ_BYTES = 16 * 1024
_HEADER_BYTES = 8 * 1024  # of a line, and of a field


class RequestFault(StrEnum):
    """The reason for a missing response."""

    NOT_ALLOWED = "address_not_allowed"
    UNREACHABLE = "connection_failed"
    TLS = "certificate_refused"
    TIMEOUT = "timeout"
    NO_HTTP = "no_http"


class RequestFailed(Exception):  # noqa: N818  (a state of the world, not a mistake)
    """No response was received. The text can be shown to the party that set the URL.

    It reveals nothing about the operator's network: a name that leads there and one that leads
    nowhere are refused in the same words.
    """

    def __init__(self, fault: RequestFault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An answer of any status, and the first bytes of its body; `is_truncated` if there were more.

    `retry_after` and `location` are those headers as they came, empty without one.
    """

    status: int
    content_type: str
    body: bytes
    is_truncated: bool
    retry_after: str = ""
    location: str = ""


class AddressBusy(Exception):  # noqa: N818  (a state of the world, not a mistake)
    """The limit of open requests to an address of the host is reached; none was sent."""


class SafeHttpClient:
    """Sends requests. Each request has a connection of its own, so none waits for another.

    With `requests_per_address`, the number of open requests is limited for each address that hosts
    resolve to, and for each /64 network of IPv6: names are free, and their owner chooses where
    they lead.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        resolver: HostResolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
        requests_per_address: int | None = None,
    ) -> None:
        self._policy = policy
        self._requests_per_address = requests_per_address
        self._under_way: Counter[str] = Counter()
        self._resolver = resolver or DnsResolver()
        self._ssl_context = ssl_context or _default_ssl_context()

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes = b"",
        timeout_s: float,
        response_bytes_max: int,
    ) -> HttpResponse:
        """Send one request, and read so much of its response; RequestFailed if none came in time.

        AddressBusy if nothing was sent because an address has as many requests as it may.

        `timeout_s` is for all of it, from the question for the host's address on. It ends the
        reading of a body too: what was read until then is answered.
        """
        parsed_url = _parse_url(url)
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(until) as limit:
                pinned = await self._resolve(parsed_url)
                with self._count_request(pinned):
                    async with (
                        self._open_session(pinned) as session,
                        _start_request(session, method, parsed_url, headers, body) as response,
                    ):
                        # the status has arrived, and is valid
                        limit.reschedule(None)
                        read, cut = await _read_body(response, response_bytes_max, until)
                        kind = response.headers.get("content-type", "")
                        wait = response.headers.get("retry-after", "")
                        place = response.headers.get("location", "")
                        return HttpResponse(response.status, kind, read, cut, wait, place)
        except TimeoutError:
            raise RequestFailed(RequestFault.TIMEOUT, f"no answer within {timeout_s:g} s") from None
        except aiohttp.ClientConnectorCertificateError as fault:
            raise RequestFailed(
                RequestFault.TLS, _describe_certificate_error(fault.certificate_error)
            ) from None
        except aiohttp.ClientConnectorSSLError:
            raise RequestFailed(RequestFault.TLS, "TLS was refused") from None
        except aiohttp.ClientConnectorError:
            raise RequestFailed(RequestFault.UNREACHABLE, "the connection was refused") from None
        except (aiohttp.ClientError, OSError, ValueError):
            raise RequestFailed(
                RequestFault.NO_HTTP, "the connection ended without an HTTP answer"
            ) from None

    async def close(self) -> None:
        """End what it has open."""
        await self._resolver.close()

    @contextmanager
    def _count_request(self, pinned: _PinnedResolver) -> Iterator[None]:
        """Count a request at all addresses that it may go to; AddressBusy if one has no room."""
        if self._requests_per_address is None:
            yield
            return
        networks = {get_network(address) for address in pinned.addresses}
        if any(self._under_way[network] >= self._requests_per_address for network in networks):
            raise AddressBusy
        self._under_way.update(networks)
        try:
            yield
        finally:
            self._under_way.subtract(networks)
            # only open requests are stored
            self._under_way = +self._under_way

    async def _resolve(self, url: URL) -> _PinnedResolver:
        """Return the addresses of a host, if all of them are allowed."""
        host, port = url.host or "", url.port or 0
        itself = find_ip_literal(host)
        addresses = [itself] if itself else await self._resolver.resolve(host)
        tls = url.scheme == "https"
        if not addresses or not all(
            self._policy.is_allowed(address, port, tls=tls) for address in addresses
        ):
            raise RequestFailed(
                RequestFault.NOT_ALLOWED,
                "the host has no public address, or the port is not allowed",
            )
        return _PinnedResolver(addresses)

    def _open_session(self, pinned: _PinnedResolver) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=pinned,
            use_dns_cache=False,
            force_close=True,
            limit=1,
            ssl=self._ssl_context,
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


class _PinnedResolver(AbstractResolver):
    """Resolves to the checked addresses, and opens sockets to no others."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self.addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in self.addresses
            if family in {socket.AF_UNSPEC, socket.AF_INET6 if ":" in address else socket.AF_INET}
        ]

    async def close(self) -> None:
        """Do nothing: it has nothing open."""

    def socket(self, place: Any) -> socket.socket:
        """Return a socket to connect to one address."""
        family, kind, protocol, _, address = place
        if address[0] not in self.addresses:
            raise OSError("an address that Florin did not check")
        created_socket = socket.socket(family, kind, protocol)
        created_socket.setblocking(False)
        return created_socket


@cache
def _default_ssl_context() -> ssl.SSLContext:
    """Return the machine's trusted authorities, read once.

    Reading takes 20 ms, and a start has two.
    """
    return ssl.create_default_context()


def _parse_url(text: str) -> URL:
    try:
        url = URL(text)
        # a host in Punycode is decoded only now
        is_web_url = url.scheme in {"http", "https"} and url.host and not (url.user or url.password)
    except ValueError:
        is_web_url = None
    if not is_web_url:
        raise RequestFailed(
            RequestFault.NOT_ALLOWED, "not an http or https URL without a user name"
        )
    return url


def _start_request(
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


async def _read_body(
    response: aiohttp.ClientResponse, answer_bytes: int, until: float
) -> tuple[bytes, bool]:
    """Return the first bytes of a body, as many as came in time, and whether there are more."""
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


def _describe_certificate_error(error: Exception) -> str:
    message = getattr(error, "verify_message", "")
    return f"the certificate is refused: {message}" if message else "the certificate is refused"
