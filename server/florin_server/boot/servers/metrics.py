"""Metrics on a listener of their own: they are the operator's, and for this machine only."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack

from florin_gateway.app import Gateway
from florin_gateway.backends import Local
from florin_gateway.plain import PlainHandler
from florin_gateway.server import HttpServer
from florin_gateway.settings import ServerSettings

from florin_server.boot.servers.addresses import METRICS_PORT, listen, spelled
from florin_server.flows.app import App
from florin_server.meters import Meters
from florin_server.rpc.server.idempotency import Guards
from florin_server.web import metrics

_HOST = "127.0.0.1"


def bind(port: int) -> socket.socket:
    """A listening socket; OSError if the port is taken."""
    return listen("Metrics", _HOST, port, METRICS_PORT)


def url_of(listener: socket.socket) -> str:
    """The address of metrics behind a listening socket."""
    return f"http://{spelled(*listener.getsockname()[:2])}{metrics.PATH}"


async def start(
    app: App, guards: Guards, stack: AsyncExitStack, listener: socket.socket | None = None
) -> str:
    """Starts to tell metrics; returns their address, or nothing if the operator wants none.

    A `listener` that others opened is used instead of a port.
    """
    port = app.settings.metrics_port
    if port is None:
        return ""
    routes = metrics.routes(app, lambda: guards.calls)
    return await _start(routes, bind(port) if listener is None else listener, stack)


async def start_counted(known: Meters, port: int, stack: AsyncExitStack) -> str:
    """The same of a process that has meters and nothing else."""
    return await _start(metrics.counted(known), bind(port), stack)


async def _start(
    routes: Mapping[str, PlainHandler], listener: socket.socket, stack: AsyncExitStack
) -> str:
    stack.callback(listener.close)
    # no RPC is reached here
    served = Gateway(Local([]), ())
    for path, handler in routes.items():
        for method in ("GET", "HEAD"):
            served.add_route(method, path, handler)
    server = HttpServer(served, ServerSettings(), sock=listener)
    await server.start()
    stack.push_async_callback(server.stop)
    return url_of(listener)
