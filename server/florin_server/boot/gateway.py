"""The REST gateway, in front of this process's servicers or of a service elsewhere."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack

from florin_gateway.app import Gateway
from florin_gateway.backends import Local, Remote
from florin_gateway.plain import PlainAnswer, PlainRequest
from florin_gateway.rpc import Backend
from florin_gateway.server import HttpServer

from florin_server.boot.grpc_server import PUBLIC, GrpcServers

Problems = Callable[[], Awaitable[Mapping[str, str]]]

_BACKLOG = 2048


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; OSError if the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    listener.setblocking(False)
    return listener


def url_of(listener: socket.socket) -> str:
    """The address of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def start(
    grpc: GrpcServers, listener: socket.socket, stack: AsyncExitStack, problems: Problems
) -> None:
    """Starts the gateway over the servicers of this process, through their interceptors."""
    local = Local([grpc.gate])
    grpc.register(local)
    await _start(local, listener, stack, problems)


async def start_remote(target: str, listener: socket.socket, stack: AsyncExitStack) -> str:
    """Starts the gateway over a channel; returns its address."""
    remote = Remote(target)
    stack.push_async_callback(remote.close)

    async def reachable() -> Mapping[str, str]:
        return {} if await remote.ready() else {"upstream": f"{target} does not answer"}

    await _start(remote, listener, stack, reachable)
    return url_of(listener)


async def _start(
    backend: Backend, listener: socket.socket, stack: AsyncExitStack, problems: Problems
) -> None:
    gateway = Gateway(backend, PUBLIC)

    async def healthz(_request: PlainRequest) -> PlainAnswer:
        return PlainAnswer.json({"status": "ok"})

    async def readyz(_request: PlainRequest) -> PlainAnswer:
        if checks := await problems():
            return PlainAnswer.json({"status": "unready", "checks": dict(checks)}, 503)
        return PlainAnswer.json({"status": "ready"})

    gateway.add_route("GET", "/healthz", healthz)
    gateway.add_route("GET", "/readyz", readyz)
    server = HttpServer(gateway, sock=listener)
    await server.start()
    stack.push_async_callback(server.stop)
