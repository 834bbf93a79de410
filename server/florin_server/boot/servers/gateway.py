"""The REST gateway, in front of this process's servicers or of a service elsewhere."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType

from florin_gateway.app import Gateway
from florin_gateway.backends import Local
from florin_gateway.forwarded import PROXY_PROTOCOL, Proxies
from florin_gateway.jsoncodec import Codec
from florin_gateway.observed import Observe
from florin_gateway.plain import PlainAnswer, PlainHandler, PlainRequest
from florin_gateway.remote import Remote
from florin_gateway.rpc import Backend
from florin_gateway.server import HttpServer
from florin_gateway.settings import GatewaySettings, GuardSettings, ServerSettings

from florin_server.boot.servers import consoles, observing
from florin_server.boot.servers.addresses import HTTP_PORT, listen, spelled
from florin_server.boot.servers.certificates import Certificates
from florin_server.boot.servers.grpc_server import PUBLIC, GrpcServers
from florin_server.boot.servers.observing import Seen
from florin_server.boot.servers.peers import proxies_of
from florin_server.boot.servers.upstream import Link
from florin_server.config import Settings
from florin_server.flows.app import App
from florin_server.web import routes as web
from florin_server.web.headers import HEADERS
from florin_server.web.people.page import refusal

_log = logging.getLogger(__name__)

Problems = Callable[[], Awaitable[Mapping[str, str]]]

# compiled once, whatever starts in this process
_CODEC = Codec()

# wallets in browsers read every answer here, of paths that do not exist too
_CORS_PATHS = ("/v1/gateway/*", *web.CORS_PATHS)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; OSError if the address is taken."""
    return listen("REST", host, port, HTTP_PORT)


def url_of(listener: socket.socket, *, tls: bool = False) -> str:
    """The address of a listening socket."""
    return f"{'https' if tls else 'http'}://{spelled(*listener.getsockname()[:2])}"


def server_settings(settings: Settings, certificates: Certificates | None = None) -> ServerSettings:
    """What the operator chose for the HTTP server."""
    by_connection = settings.proxy_header == PROXY_PROTOCOL
    guard = GuardSettings(
        head_s_max=settings.request_head_s,
        body_s_max=settings.request_body_s,
        proxy_protocol=settings.trusted_proxies if by_connection else (),
    )
    return ServerSettings(guard=guard, tls=None if certificates is None else certificates.context)


async def start(
    app: App,
    grpc: GrpcServers,
    listener: socket.socket,
    stack: AsyncExitStack,
    problems: Problems,
    *,
    certificates: Certificates | None = None,
) -> HttpServer:
    """Starts the gateway over the servicers of this process, through their interceptors.

    Renewed `certificates` are taken from now on.
    """
    if certificates is not None:
        certificates.follow(stack)
    local = Local([grpc.gate])
    grpc.register(local)
    server = server_settings(app.settings, certificates)
    counted = app.meters if app.settings.metrics_port is not None else None
    seen = Seen(counted, app.traces, app.settings.tracing.trusted_callers)
    return await _start(
        local,
        listener,
        server,
        stack,
        problems,
        pages=web.hosted(app, consoles.of_merchants(app, grpc)),
        proxies=proxies_of(app.settings),
        observe=observing.of_rest(seen),
    )


async def start_remote(
    target: str,
    listener: socket.socket,
    stack: AsyncExitStack,
    server: ServerSettings | None = None,
    *,
    link: Link | None = None,
    proxies: Proxies | None = None,
    observe: Observe | None = None,
) -> str:
    """Starts the gateway over a channel; returns its address.

    `proxies` are in front of it, `observe` is told of every request. Refused for a link that others
    can listen to.
    """
    link = link or Link()
    link.check(target)
    remote = Remote(
        target, credentials=link.credentials(), token=link.token, options=link.options()
    )
    stack.push_async_callback(remote.close)
    following = asyncio.create_task(_follow(remote, target))
    stack.callback(following.cancel)

    async def reachable() -> Mapping[str, str]:
        return {} if await remote.ready() else {"upstream": f"{target} does not answer"}

    chosen = server or ServerSettings()
    await _start(
        remote, listener, chosen, stack, reachable, proxies=proxies or Proxies(), observe=observe
    )
    return url_of(listener, tls=chosen.tls is not None)


async def _follow(remote: Remote, target: str) -> None:
    """Logs when the service is lost, and when it is back."""
    async for connected in remote.connected():
        if connected:
            _log.info("connected to %s", target)
        else:
            _log.error("%s does not answer: every call is refused with 503 until it does", target)


async def _start(
    backend: Backend,
    listener: socket.socket,
    settings: ServerSettings,
    stack: AsyncExitStack,
    problems: Problems,
    *,
    pages: web.Routes = MappingProxyType({}),
    proxies: Proxies,
    observe: Observe | None = None,
) -> HttpServer:
    chosen = GatewaySettings(headers=HEADERS, cors_paths=_CORS_PATHS, proxies=proxies)
    refusals = refusal if pages else None
    gateway = Gateway(backend, PUBLIC, chosen, observe=observe, refusals=refusals, codec=_CODEC)
    gateway.reserve(*web.RESERVED)

    async def healthz(_request: PlainRequest) -> PlainAnswer:
        return PlainAnswer.json({"status": "ok"})

    async def readyz(_request: PlainRequest) -> PlainAnswer:
        if checks := await problems():
            return PlainAnswer.json({"status": "unready", "checks": dict(checks)}, 503)
        return PlainAnswer.json({"status": "ready"})

    plain: dict[str, PlainHandler] = {"/healthz": healthz, "/readyz": readyz}
    checks = {(method, path): plain[path] for path in plain for method in ("GET", "HEAD")}
    for (method, path), handler in (checks | {**web.documents(), **pages}).items():
        gateway.add_route(method, path, handler)
    server = HttpServer(gateway, settings, sock=listener)
    await server.start()
    stack.push_async_callback(server.stop)
    return server
