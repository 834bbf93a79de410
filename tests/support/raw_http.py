"""Requests and answers as bytes, and the listeners that reach a whole service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from florin_server.app.servers import gateway
from florin_server.app.servers.peers import get_proxies
from florin_server.app.servers.upstream import UpstreamConnection
from florin_server.app.service import FlorinService

HEALTH_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


@dataclass
class RawResponse:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def parse_response(raw: bytes) -> RawResponse:
    """Parse one answer, with a chunked body joined."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(": ")
        assert name.lower() not in headers, f"{name} came twice"
        headers[name.lower()] = value
    if headers.get("transfer-encoding") == "chunked":
        joined = b""
        while body:
            size, _, body = body.partition(b"\r\n")
            joined, body = joined + body[: int(size, 16)], body[int(size, 16) + 2 :]
        body = joined
    return RawResponse(int(first.split()[1]), headers, body)


async def read_response(reader: asyncio.StreamReader, method: bytes) -> RawResponse:
    """Read the next answer of a connection, without interim ones; EOFError if it ends before."""
    answer = parse_response(await reader.readuntil(b"\r\n\r\n"))
    while answer.status == 100:
        answer = parse_response(await reader.readuntil(b"\r\n\r\n"))
    if method != b"HEAD" and answer.status != 204:
        answer.body = await reader.readexactly(int(answer.headers["content-length"]))
    return answer


@dataclass(frozen=True)
class RawSocket:
    """Client of a REST listener that sends and receives bytes."""

    host: str
    port: int

    async def talk(self, *parts: bytes) -> bytes:
        """Return everything that comes back before the server closes the connection."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            async with asyncio.timeout(10):
                return await reader.read()
        finally:
            writer.close()

    async def ask(self, request: bytes) -> tuple[RawResponse, bool]:
        """Return the answer to a request, and whether the connection can be reused."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(request)
            async with asyncio.timeout(10):
                answer = await read_response(reader, request.lstrip().split(b" ", 1)[0])
                writer.write(HEALTH_REQUEST)
                try:
                    again = await read_response(reader, b"GET")
                except (EOFError, ConnectionError):
                    return answer, False
            assert again.json() == {"status": "ok"}
            return answer, True
        finally:
            writer.close()


@asynccontextmanager
async def open_raw_socket(
    service: FlorinService, kind: str, **settings: Any
) -> AsyncIterator[RawSocket]:
    """Open a further listener of a service, by its servicers ("local") or gRPC ("remote")."""
    own = service.settings.model_copy(update=settings)
    async with AsyncExitStack() as stack:
        listener = gateway.bind_socket("127.0.0.1", 0)
        if kind == "local":
            app = replace(service.app, settings=own)
            await gateway.start_gateway(app, service.grpc, listener, stack, _list_no_problems)
        else:
            target, server = service.grpc.target, gateway.build_server_settings(own)
            link, proxies = (
                UpstreamConnection(token=service.secrets.gateway_token),
                get_proxies(own),
            )
            await gateway.start_remote_gateway(
                target, listener, stack, server, connection=link, proxies=proxies
            )
        yield RawSocket(*listener.getsockname()[:2])


async def _list_no_problems() -> dict[str, str]:
    return {}
