"""An HTTP server that says exactly what it is told to, over TLS if it has a certificate."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

Say = Callable[["Request", asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Request:
    """What came."""

    line: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Answering:
    """Where it listens, and what came; `say` may be replaced at any time."""

    say: Say
    port: int = 0
    came: list[Request] = field(default_factory=list)
    connections: int = 0


def answers(status: int = 200, body: bytes = b"", **headers: str) -> Say:
    """Says a status, a body and headers."""
    told = {"content-length": str(len(body)), "connection": "close"}
    told |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in told.items())

    async def say(_: Request, out: asyncio.StreamWriter) -> None:
        out.write(f"HTTP/1.1 {status} As Told\r\n{head}\r\n".encode() + body)

    return say


async def never(_: Request, __: asyncio.StreamWriter) -> None:
    """Says nothing for as long as the other side waits."""
    await asyncio.Event().wait()


async def endless(_: Request, out: asyncio.StreamWriter) -> None:
    """Says a body that has no end."""
    out.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        out.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        await out.drain()


@asynccontextmanager
async def answering(
    say: Say, certificate: tuple[Path, Path] | None = None
) -> AsyncIterator[Answering]:
    """Serves on a free port of 127.0.0.1."""
    here = Answering(say)
    open_: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_.add(task)
        here.connections += 1
        try:
            request = await _read(reader)
            here.came.append(request)
            await here.say(request, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # the other side has gone, or the test is over
            pass
        finally:
            open_.discard(task)
            writer.close()

    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    here.port = server.sockets[0].getsockname()[1]
    try:
        yield here
    finally:
        server.close()
        for task in open_:
            task.cancel()
        await asyncio.gather(*open_, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *rest = head.strip().split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(line, headers, body)
