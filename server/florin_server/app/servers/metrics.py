"""Metrics and the operator's console on a listener of their own, for this machine only."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack

from grpc_rest_gateway.app import RestGateway
from grpc_rest_gateway.backends import LocalBackend
from grpc_rest_gateway.server import HttpServer
from grpc_rest_gateway.settings import ServerSettings

from florin_server.app.core import App
from florin_server.app.servers import consoles
from florin_server.app.servers.addresses import (
    METRICS_PORT_SETTING,
    format_address,
    open_listening_socket,
)
from florin_server.app.servers.grpc_server import GrpcServers
from florin_server.app.servers.loop_lag import measure_loop_lag
from florin_server.base.meters import Meters
from florin_server.features.monitoring.service.process import ProcessFacts, read_process_snapshot
from florin_server.web import assets, metrics
from florin_server.web.handlers import Routes, build_read_routes

_HOST = "127.0.0.1"


def bind_socket(port: int) -> socket.socket:
    """Return a listening socket; OSError if the port is taken."""
    return open_listening_socket("Metrics", _HOST, port, METRICS_PORT_SETTING)


def get_url(listener: socket.socket) -> str:
    """Return the address of metrics behind a listening socket."""
    return f"http://{format_address(*listener.getsockname()[:2])}{metrics.PATH}"


async def start_metrics(
    app: App,
    grpc: GrpcServers,
    stack: AsyncExitStack,
    listener: socket.socket | None = None,
    *,
    read_facts: Callable[[], ProcessFacts] = ProcessFacts,
) -> str:
    """Start the metrics server; return its address, or nothing if the operator wants none.

    A `listener` that others opened is used instead of a port. `read_facts` are read with each
    request.
    """
    port = app.settings.metrics_port
    if port is None:
        return ""
    scraped = build_read_routes(
        metrics.build_routes(
            app, lambda: grpc.locks.call_count, lambda: read_process_snapshot(app, read_facts())
        )
    )
    pages = consoles.build_operator_routes(app, grpc)
    files = build_read_routes(assets.build_routes()) if pages else {}
    routes = {**scraped, **files, **pages}
    chosen = bind_socket(port) if listener is None else listener
    return await _start_server(routes, chosen, stack, app.meters)


async def start_meters(meters: Meters, port: int, stack: AsyncExitStack) -> str:
    """Start the metrics server of a process that has meters and nothing else."""
    return await _start_server(
        build_read_routes(metrics.build_meter_routes(meters)), bind_socket(port), stack, meters
    )


async def _start_server(
    routes: Routes,
    listener: socket.socket,
    stack: AsyncExitStack,
    meters: Meters,
) -> str:
    stack.callback(listener.close)
    measuring = asyncio.create_task(measure_loop_lag(meters))
    stack.callback(measuring.cancel)
    # only the console's pages reach an RPC here
    served = RestGateway(LocalBackend([]), ())
    for (method, path), handler in routes.items():
        served.add_route(method, path, handler)
    server = HttpServer(served, ServerSettings(), sock=listener)
    await server.start()
    stack.push_async_callback(server.stop)
    return get_url(listener)
