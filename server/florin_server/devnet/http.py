"""JSON-RPC of an embedded chain over HTTP: POST requests, and WebSockets at the same place."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from florin_server.devnet.socket import Chain, Dialect, Handle, Socket, add_sockets

BODY_MAX: Final = 5 * 2**20  # as geth
SHUTDOWN_S: Final = 1.0  # an answer that is late on purpose may never come


def runner_of(handle: Handle, chain: Chain, dialect: Dialect) -> web.AppRunner:
    """What answers; whoever has it ends it."""

    async def post(request: web.Request) -> web.Response:
        answer = await handle(await request.read())
        return web.Response(body=answer, content_type="application/json")

    application = web.Application(client_max_size=BODY_MAX)
    application.router.add_post("/", post)
    add_sockets(application, lambda: Socket(handle, chain, dialect))
    return web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_S)


async def listen_at(runner: web.AppRunner, host: str, port: int) -> int:
    """Begins to answer; returns the port, which port 0 leaves open."""
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    actual: int = runner.addresses[0][1]
    return actual
