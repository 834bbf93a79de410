"""Requests and answers as bytes, and the doors that a whole service can be reached through."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from florin_server.boot.servers import gateway
from florin_server.boot.servers.peers import proxies_of
from florin_server.boot.servers.upstream import Link
from florin_server.boot.service import Service

ALIVE = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def read_answer(raw: bytes) -> Answer:
    """One answer, with a chunked body put together."""
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
    return Answer(int(first.split()[1]), headers, body)


async def read_one(reader: asyncio.StreamReader, method: bytes) -> Answer:
    """The next answer of a connection, interim ones aside; EOFError if it ends before."""
    answer = read_answer(await reader.readuntil(b"\r\n\r\n"))
    while answer.status == 100:
        answer = read_answer(await reader.readuntil(b"\r\n\r\n"))
    if method != b"HEAD" and answer.status != 204:
        answer.body = await reader.readexactly(int(answer.headers["content-length"]))
    return answer


@dataclass(frozen=True)
class Door:
    """A REST listener, spoken to in bytes."""

    host: str
    port: int

    async def talk(self, *parts: bytes) -> bytes:
        """Everything that comes back before the server closes the connection."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            async with asyncio.timeout(10):
                return await reader.read()
        finally:
            writer.close()

    async def ask(self, request: bytes) -> tuple[Answer, bool]:
        """The answer to a request, and whether another one may follow on the connection."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(request)
            async with asyncio.timeout(10):
                answer = await read_one(reader, request.lstrip().split(b" ", 1)[0])
                writer.write(ALIVE)
                try:
                    again = await read_one(reader, b"GET")
                except (EOFError, ConnectionError):
                    return answer, False
            assert again.json() == {"status": "ok"}
            return answer, True
        finally:
            writer.close()


@asynccontextmanager
async def door(service: Service, kind: str, **settings: Any) -> AsyncIterator[Door]:
    """A further listener of a service: over its servicers ("local") or over gRPC ("remote")."""
    own = service.settings.model_copy(update=settings)
    async with AsyncExitStack() as stack:
        listener = gateway.bind("127.0.0.1", 0)
        if kind == "local":
            app = replace(service.app, settings=own)
            await gateway.start(app, service.grpc, listener, stack, _no_problems)
        else:
            target, server = service.grpc.target, gateway.server_settings(own)
            link, proxies = Link(token=service.secrets.gateway_token), proxies_of(own)
            await gateway.start_remote(target, listener, stack, server, link=link, proxies=proxies)
        yield Door(*listener.getsockname()[:2])


async def _no_problems() -> dict[str, str]:
    return {}
