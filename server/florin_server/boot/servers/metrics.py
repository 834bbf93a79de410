"""Metrics and the operator's console on a listener of their own, for this machine only."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from florin_gateway.app import Gateway
from florin_gateway.backends import Local
from florin_gateway.plain import PlainHandler
from florin_gateway.server import HttpServer
from florin_gateway.settings import ServerSettings

from florin_server.boot.servers import consoles
from florin_server.boot.servers.addresses import METRICS_PORT, listen, spelled
from florin_server.boot.servers.grpc_server import GrpcServers
from florin_server.boot.servers.loop_lag import measure_loop_lag
from florin_server.flows.app import App
from florin_server.flows.operator.process import ProcessFacts, read_process
from florin_server.meters import Meters
from florin_server.web import assets, metrics

_HOST = "127.0.0.1"


def bind(port: int) -> socket.socket:
    """A listening socket; OSError if the port is taken."""
    return listen("Metrics", _HOST, port, METRICS_PORT)


def url_of(listener: socket.socket) -> str:
    """The address of metrics behind a listening socket."""
    return f"http://{spelled(*listener.getsockname()[:2])}{metrics.PATH}"


async def start(
    app: App,
    grpc: GrpcServers,
    stack: AsyncExitStack,
    listener: socket.socket | None = None,
    *,
    facts: Callable[[], ProcessFacts] = ProcessFacts,
) -> str:
    """Starts to tell metrics; returns their address, or nothing if the operator wants none.

    A `listener` that others opened is used instead of a port. `facts` are asked with each reading.
    """
    port = app.settings.metrics_port
    if port is None:
        return ""
    scraped = _read(
        metrics.routes(app, lambda: grpc.guards.calls, lambda: read_process(app, facts()))
    )
    pages = consoles.of_operator(app, grpc)
    files = _read(assets.routes()) if pages else {}
    routes = {**scraped, **files, **pages}
    chosen = bind(port) if listener is None else listener
    return await _start(routes, chosen, stack, app.meters)


async def start_counted(known: Meters, port: int, stack: AsyncExitStack) -> str:
    """The same of a process that has meters and nothing else."""
    return await _start(_read(metrics.counted(known)), bind(port), stack, known)


def _read(handlers: Mapping[str, PlainHandler]) -> Mapping[tuple[str, str], PlainHandler]:
    """The same by method too."""
    return {(method, path): handlers[path] for path in handlers for method in ("GET", "HEAD")}


async def _start(
    routes: Mapping[tuple[str, str], PlainHandler],
    listener: socket.socket,
    stack: AsyncExitStack,
    known: Meters,
) -> str:
    stack.callback(listener.close)
    measuring = asyncio.create_task(measure_loop_lag(known))
    stack.callback(measuring.cancel)
    # no RPC is reached here but by the console's pages
    served = Gateway(Local([]), ())
    for (method, path), handler in routes.items():
        served.add_route(method, path, handler)
    server = HttpServer(served, ServerSettings(), sock=listener)
    await server.start()
    stack.push_async_callback(server.stop)
    return url_of(listener)
