"""The HTTP server around the gateway, on the event loop of its caller."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from florin_gateway.app import Gateway
from florin_gateway.guard import guard_class
from florin_gateway.joinedwrites import LINGER_S
from florin_gateway.settings import ServerSettings


class HttpServer:
    """One listener; `start` returns once it accepts, `stop` once everything is answered.

    A socket that the caller bound (for SO_REUSEPORT, say) is used instead of host and port.
    """

    def __init__(
        self,
        gateway: Gateway,
        settings: ServerSettings | None = None,
        *,
        sock: socket.socket | None = None,
    ) -> None:
        self._gateway = gateway
        self._settings = settings or ServerSettings()
        self._socket = sock
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port that is listened on."""
        if self._socket is None:
            raise RuntimeError("the server was not started")
        return int(self._socket.getsockname()[1])

    async def start(self) -> None:
        """Listen; OSError if the address is taken."""
        settings = self._settings
        if self._socket is None:
            self._socket = _listen(settings.host, settings.port, settings.backlog)
        self._server = _Server(_config(self._gateway, settings), settings.guard.head_s_max)
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        ready = asyncio.create_task(self._server.ready.wait())
        await asyncio.wait({self._serving, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._serving.done():
            await self._serving
            raise RuntimeError("the HTTP server did not start")

    async def make_way(self) -> None:
        """Accept no more, and have clients make their next request on a new connection.

        What there is is answered still; whoever else has the socket gets the new connections.
        """
        if self._server is not None:
            await self._server.make_way()

    async def stop(self) -> None:
        """Accept no more, end what is held, and wait for the answers on their way."""
        if self._server is None or self._serving is None:
            return
        self._gateway.stop()
        self._server.leave()
        await self._serving
        self._server = None


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to its host and needs no tenth of a second to stop.

    A connection gets as long for its handshake as for a head.
    """

    def __init__(self, config: uvicorn.Config, handshake_s: float) -> None:
        super().__init__(config)
        self._handshake_s = handshake_s
        self.ready = asyncio.Event()
        self._leaving = asyncio.Event()

    async def make_way(self) -> None:
        for one in self.servers:
            one.close()
        # with every answer from now on; connections without a request stay open
        self.config.encoded_headers.append((b"connection", b"close"))
        await self.on_tick(0)

    def leave(self) -> None:
        self.should_exit = True
        self._leaving.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        config, loop = self.config, asyncio.get_running_loop()
        in_time = None if config.ssl is None else self._handshake_s

        def connection() -> asyncio.Protocol:
            state = self.lifespan.state
            made: asyncio.Protocol = config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=self.server_state, app_state=state
            )
            return made

        self.servers = [
            await loop.create_server(
                connection,
                sock=one,
                ssl=config.ssl,
                backlog=config.backlog,
                ssl_handshake_timeout=in_time,
                ssl_shutdown_timeout=None if in_time is None else LINGER_S,
            )
            for one in sockets or ()
        ]
        self.started = True
        # the first tick sets the Date header
        await self.on_tick(0)
        self.ready.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), 1.0)


def _config(gateway: Gateway, settings: ServerSettings) -> uvicorn.Config:
    tls = settings.tls
    return uvicorn.Config(
        gateway,
        interface="asgi3",
        http=guard_class(settings.guard, gateway.rules, gateway.headers_at),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=settings.backlog,
        timeout_keep_alive=settings.guard.idle_s_max,
        timeout_graceful_shutdown=settings.stop_s_max,
        ssl_context_factory=None if tls is None else lambda _config, _usual: tls,
    )


def _listen(host: str, port: int, backlog: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=backlog)
    listener.setblocking(False)
    return listener
