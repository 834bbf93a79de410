"""JSON-RPC of an embedded chain over HTTP: POST requests, and WebSockets at the same path.

Programs of this machine can use it; pages in a browser of this machine cannot.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

import orjson
from aiohttp import web
from florin_server.domain.urls import is_loopback

from florin_sandbox.devnet.socket import (
    HeadSource,
    PayloadHandler,
    RpcSocket,
    SubscriptionDialect,
    add_socket_support,
)

BODY_MAX: Final = 5 * 2**20  # as in geth
SHUTDOWN_S: Final = 1.0  # a deliberately late answer may never come
_JSON: Final = "application/json"
# wallets in browsers; their installation grants them access to this machine
_EXTENSIONS: Final = frozenset({"chrome-extension", "moz-extension", "safari-web-extension"})

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def create_runner(
    handle: PayloadHandler, chain: HeadSource, dialect: SubscriptionDialect
) -> web.AppRunner:
    """Return the server; the caller stops it."""

    async def post(request: web.Request) -> web.Response:
        answer = await handle(await request.read())
        return web.Response(body=answer, content_type=_JSON)

    application = web.Application(client_max_size=BODY_MAX, middlewares=[_reject_pages])
    application.router.add_post("/", post)
    add_socket_support(application, lambda: RpcSocket(handle, chain, dialect))
    return web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_S)


def find_refusal(request: web.Request) -> tuple[int, str] | None:
    """Return HTTP status and reason if a web page may have sent a request, else None.

    The chain has no keys: any client that reaches it can stop it and mint money. A page reaches it
    by a name of its own that leads to this machine (Host), by a WebSocket (Origin), or by a POST
    that browsers send without asking first (any media type but JSON).
    """
    hosts = request.headers.getall("Host", [])
    if len(hosts) != 1 or not _is_loopback(f"//{hosts[0]}"):
        return 403, "the Host header must name this machine: localhost, 127.0.0.1 or [::1]"
    origins = request.headers.getall("Origin", [])
    if not all(_is_trusted(origin) for origin in origins):
        return 403, "pages of other sites cannot use this chain: Origin must be of this machine"
    if request.method == "POST" and request.content_type != _JSON:
        return 415, f"send the header Content-Type: {_JSON}"
    return None


@web.middleware
async def _reject_pages(request: web.Request, handler: _Handler) -> web.StreamResponse:
    refusal = find_refusal(request)
    if refusal is None:
        return await handler(request)
    status, reason = refusal
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": reason}}
    return web.Response(status=status, body=orjson.dumps(error), content_type=_JSON)


def _is_trusted(origin: str) -> bool:
    scheme, separator, _ = origin.partition("://")
    if separator and scheme in _EXTENSIONS:
        return True
    return scheme in {"http", "https"} and _is_loopback(origin)


def _is_loopback(url: str) -> bool:
    """Return True for names and addresses that always lead to this machine, without DNS."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host.endswith(".localhost") or is_loopback(host)


async def serve_runner(runner: web.AppRunner, listener: socket.socket) -> int:
    """Answer on a listening socket; return its port."""
    await runner.setup()
    await web.SockSite(runner, listener).start()
    port: int = listener.getsockname()[1]
    return port
