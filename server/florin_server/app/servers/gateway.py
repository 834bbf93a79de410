"""The REST gateway, in front of this process's servicers or of a service elsewhere."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from types import MappingProxyType

from grpc_rest_gateway.app import RestGateway
from grpc_rest_gateway.backends import LocalBackend
from grpc_rest_gateway.forwarded import PROXY_PROTOCOL, TrustedProxies
from grpc_rest_gateway.jsoncodec import JsonCodec
from grpc_rest_gateway.plain import PlainHandler, PlainRequest, PlainResponse
from grpc_rest_gateway.remote import RemoteBackend
from grpc_rest_gateway.requestobserver import RequestObserver
from grpc_rest_gateway.rpc import RpcBackend
from grpc_rest_gateway.server import HttpServer
from grpc_rest_gateway.settings import GuardSettings, ServerSettings

from florin_server.app.core import App
from florin_server.app.servers import consoles, observing
from florin_server.app.servers.addresses import (
    HTTP_PORT_SETTING,
    format_address,
    open_listening_socket,
)
from florin_server.app.servers.certificates import CertificateStore
from florin_server.app.servers.grpc_server import PUBLIC_SERVICES, GrpcServers
from florin_server.app.servers.observing import RequestObservers
from florin_server.app.servers.peers import get_proxies
from florin_server.app.servers.upstream import UpstreamConnection
from florin_server.settings import Settings
from florin_server.web import routes as web
from florin_server.web.handlers import Routes, build_read_routes
from florin_server.web.headers import GATEWAY_SETTINGS
from florin_server.web.landing.page import render_refusal

_log = logging.getLogger(__name__)

ProblemsReader = Callable[[], Awaitable[Mapping[str, str]]]

# compiled once, for all that start in this process
_CODEC = JsonCodec(report_ignored=True)

# wallets in browsers can read every response here, even of unknown paths
_CORS_PATHS = ("/v1/gateway/*", *web.CORS_PATHS)


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket; OSError if the address is taken."""
    return open_listening_socket("REST", host, port, HTTP_PORT_SETTING)


def get_url(listener: socket.socket, *, tls: bool = False) -> str:
    """Return the address of a listening socket."""
    return f"{'https' if tls else 'http'}://{format_address(*listener.getsockname()[:2])}"


def build_server_settings(
    settings: Settings, certificates: CertificateStore | None = None
) -> ServerSettings:
    """Return the operator's settings of the HTTP server."""
    by_connection = settings.proxy_header == PROXY_PROTOCOL
    guard = GuardSettings(
        head_s_max=settings.request_head_s,
        body_s_max=settings.request_body_s,
        proxy_protocol=settings.trusted_proxies if by_connection else (),
    )
    return ServerSettings(guard=guard, tls=None if certificates is None else certificates.context)


async def start_gateway(
    app: App,
    grpc: GrpcServers,
    listener: socket.socket,
    stack: AsyncExitStack,
    read_problems: ProblemsReader,
    *,
    certificates: CertificateStore | None = None,
) -> HttpServer:
    """Start the gateway over the servicers of this process, through their interceptors.

    Renewed `certificates` are taken from now on.
    """
    if certificates is not None:
        certificates.start_following(stack)
    local = LocalBackend([grpc.interceptor])
    grpc.register(local)
    server = build_server_settings(app.settings, certificates)
    counted = app.meters if app.settings.metrics_port is not None else None
    seen = RequestObservers(counted, app.traces, app.settings.tracing.trusted_callers)
    return await _start_server(
        local,
        listener,
        server,
        stack,
        read_problems,
        pages=web.build_page_routes(
            app, consoles.build_merchant_routes(app, grpc), grpc.authenticator
        ),
        proxies=get_proxies(app.settings),
        observe=observing.build_rest_observer(seen),
    )


async def start_remote_gateway(
    target: str,
    listener: socket.socket,
    stack: AsyncExitStack,
    server: ServerSettings | None = None,
    *,
    connection: UpstreamConnection | None = None,
    proxies: TrustedProxies | None = None,
    observe: RequestObserver | None = None,
) -> str:
    """Start the gateway over a channel; return its address.

    `proxies` are in front of it, `observe` is called for every request. SetupError for a link that
    others can listen to.
    """
    connection = connection or UpstreamConnection()
    connection.require_usable(target)
    remote = RemoteBackend(
        target,
        credentials=connection.build_credentials(),
        token=connection.token,
        options=connection.build_options(),
    )
    stack.push_async_callback(remote.close)
    following = asyncio.create_task(_log_reachability(remote, target))
    stack.callback(following.cancel)

    async def reachable() -> Mapping[str, str]:
        return {} if await remote.is_ready() else {"upstream": f"{target} does not answer"}

    chosen = server or ServerSettings()
    await _start_server(
        remote,
        listener,
        chosen,
        stack,
        reachable,
        proxies=proxies or TrustedProxies(),
        observe=observe,
    )
    return get_url(listener, tls=chosen.tls is not None)


async def _log_reachability(remote: RemoteBackend, target: str) -> None:
    """Log when the service is lost, and when it is back."""
    async for connected in remote.watch_connection():
        if connected:
            _log.info("connected to %s", target)
        else:
            _log.error(
                "%s does not answer: the gateway refuses every call with 503 until it does", target
            )


async def _start_server(
    backend: RpcBackend,
    listener: socket.socket,
    settings: ServerSettings,
    stack: AsyncExitStack,
    problems: ProblemsReader,
    *,
    pages: Routes = MappingProxyType({}),
    proxies: TrustedProxies,
    observe: RequestObserver | None = None,
) -> HttpServer:
    chosen = replace(GATEWAY_SETTINGS, cors_paths=_CORS_PATHS, proxies=proxies)
    refusals = render_refusal if pages else None
    gateway = RestGateway(
        backend, PUBLIC_SERVICES, chosen, observer=observe, render_refusal=refusals, codec=_CODEC
    )
    gateway.reserve_paths(*web.RESERVED_PREFIXES)

    async def healthz(_request: PlainRequest) -> PlainResponse:
        return PlainResponse.from_json({"status": "ok"})

    async def readyz(_request: PlainRequest) -> PlainResponse:
        if checks := await problems():
            return PlainResponse.from_json({"status": "unready", "checks": dict(checks)}, 503)
        return PlainResponse.from_json({"status": "ready"})

    plain: dict[str, PlainHandler] = {"/healthz": healthz, "/readyz": readyz}
    checks = build_read_routes(plain)
    for (method, path), handler in {**checks, **web.build_document_routes(), **pages}.items():
        gateway.add_route(method, path, handler)
    server = HttpServer(gateway, settings, sock=listener)
    await server.start()
    stack.push_async_callback(server.stop)
    return server
