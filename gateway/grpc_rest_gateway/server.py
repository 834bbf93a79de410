"""The HTTP server of the gateway, on the event loop of its caller."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from grpc_rest_gateway.app import RestGateway
from grpc_rest_gateway.bufferedtransport import LINGER_S
from grpc_rest_gateway.guard import make_guard_class
from grpc_rest_gateway.settings import ServerSettings


class HttpServer:
    """One listener; `start` returns once it accepts, `stop` once all requests are answered.

    A socket that the caller bound (for SO_REUSEPORT, say) replaces host and port.
    """

    def __init__(
        self,
        gateway: RestGateway,
        settings: ServerSettings | None = None,
        *,
        sock: socket.socket | None = None,
    ) -> None:
        self._gateway = gateway
        self._settings = settings or ServerSettings()
        self._socket = sock
        self._server: _UvicornServer | None = None
        self._serve_task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """Return the port of the listener."""
        if self._socket is None:
            raise RuntimeError("the server was not started")
        return int(self._socket.getsockname()[1])

    async def start(self) -> None:
        """Listen; raise OSError if the address is in use."""
        settings = self._settings
        if self._socket is None:
            self._socket = _listen(settings.host, settings.port, settings.backlog)
        self._server = _UvicornServer(
            _build_config(self._gateway, settings), settings.guard.head_s_max
        )
        self._serve_task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        ready = asyncio.create_task(self._server.ready.wait())
        await asyncio.wait({self._serve_task, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._serve_task.done():
            await self._serve_task
            raise RuntimeError("the HTTP server did not start")

    async def drain(self) -> None:
        """Accept no more connections, and move clients to a new connection for their next request.

        Pending requests are still answered; other owners of the socket get the new connections.
        """
        if self._server is not None:
            await self._server.drain()

    async def stop(self) -> None:
        """Accept no more, end long polls and streams, and wait for pending responses."""
        if self._server is None or self._serve_task is None:
            return
        self._gateway.stop()
        self._server.request_exit()
        await self._serve_task
        self._server = None


class _UvicornServer(uvicorn.Server):
    """A uvicorn server that leaves signals to its host and stops without a delay of 0.1 s.

    The handshake of a connection has the time limit of a head.
    """

    def __init__(self, config: uvicorn.Config, handshake_s: float) -> None:
        super().__init__(config)
        self._handshake_s = handshake_s
        self.ready = asyncio.Event()
        self._exit_requested = asyncio.Event()

    async def drain(self) -> None:
        for server in self.servers:
            server.close()
        # on every response from now on; idle connections stay open
        self.config.encoded_headers.append((b"connection", b"close"))
        await self.on_tick(0)

    def request_exit(self) -> None:
        self.should_exit = True
        self._exit_requested.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        config, loop = self.config, asyncio.get_running_loop()
        in_time = None if config.ssl is None else self._handshake_s

        def connection() -> asyncio.Protocol:
            state = self.lifespan.state
            protocol: asyncio.Protocol = config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=self.server_state, app_state=state
            )
            return protocol

        self.servers = [
            await loop.create_server(
                connection,
                sock=each_socket,
                ssl=config.ssl,
                backlog=config.backlog,
                ssl_handshake_timeout=in_time,
                ssl_shutdown_timeout=None if in_time is None else LINGER_S,
            )
            for each_socket in sockets or ()
        ]
        self.started = True
        # the first tick sets the Date header
        await self.on_tick(0)
        self.ready.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._exit_requested.wait(), 1.0)


def _build_config(gateway: RestGateway, settings: ServerSettings) -> uvicorn.Config:
    tls = settings.tls
    return uvicorn.Config(
        gateway,
        interface="asgi3",
        http=make_guard_class(settings.guard, gateway.header_rules, gateway.list_response_headers),
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
