"""HTTP server that sends exactly the configured answer, over TLS if it has a certificate."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

StubHandler = Callable[["ReceivedRequest", asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class ReceivedRequest:
    """A request that the stub received."""

    line: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class HttpStub:
    """Address of the stub and the requests it received; `handler` can be replaced at any time."""

    handler: StubHandler
    port: int = 0
    requests: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0


def make_stub_response(status: int = 200, body: bytes = b"", **headers: str) -> StubHandler:
    """Return a handler that sends a status, a body and headers."""
    result = {"content-length": str(len(body)), "connection": "close"}
    result |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in result.items())

    async def say(_: ReceivedRequest, out: asyncio.StreamWriter) -> None:
        out.write(f"HTTP/1.1 {status} Stub\r\n{head}\r\n".encode() + body)

    return say


async def hang(_: ReceivedRequest, __: asyncio.StreamWriter) -> None:
    """Send nothing for as long as the other side waits."""
    await asyncio.Event().wait()


async def send_endless_body(_: ReceivedRequest, out: asyncio.StreamWriter) -> None:
    """Send a body that has no end."""
    out.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        out.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        await out.drain()


@asynccontextmanager
async def serve_stub(
    say: StubHandler, certificate: tuple[Path, Path] | None = None
) -> AsyncIterator[HttpStub]:
    """Serve on a free port of 127.0.0.1."""
    here = HttpStub(say)
    open_: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_.add(task)
        here.connections += 1
        try:
            request = await _read_request(reader)
            here.requests.append(request)
            await here.handler(request, writer)
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


async def _read_request(reader: asyncio.StreamReader) -> ReceivedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *rest = head.strip().split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (text.partition(":") for text in rest)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return ReceivedRequest(line, headers, body)
