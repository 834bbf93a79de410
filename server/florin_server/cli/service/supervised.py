"""`florin serve --workers N`: several processes on one machine, on the same ports."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from florin_server.boot.home import Home, Refused
from florin_server.boot.processes import systemd
from florin_server.boot.processes.child import Spawned
from florin_server.boot.processes.order import Order
from florin_server.boot.processes.sharing import shared_store
from florin_server.boot.processes.supervisor import DiedEarly, Patience, Phase, Supervisor
from florin_server.boot.role import Role
from florin_server.boot.servers import consoles, gateway, metrics
from florin_server.boot.servers.addresses import (
    GRPC_PORT,
    METRICS_PORT,
    OPERATOR_PORT,
    reserve,
    spelled,
)
from florin_server.cli.console import console, fail
from florin_server.cli.service.places import Places
from florin_server.cli.service.signals import on_hangup, run_until_signalled
from florin_server.cli.settings import log_to_stderr, settings_of
from florin_server.clock import SystemClock
from florin_server.config import Settings
from florin_server.domain.settlement.lease import name_holder

# -P: a folder that the service writes to is no place for its modules
_COMMAND = (sys.executable, "-P", "-m", "florin_server.cli.service.child")
_HERE = "127.0.0.1"
_PORT_MAX = 65_535
# what REST gives open calls, beside what gRPC's two servers do, and what closing takes
_REST_S, _MARGIN_S = 10, 10
_STATES: Mapping[Phase, Callable[[], str]] = {
    Phase.UP: lambda: systemd.READY,
    Phase.RELOADING: systemd.reloading,
    Phase.RELOADED: lambda: systemd.READY,
    Phase.ENDING: lambda: systemd.STOPPING,
}


def run(given: dict[str, Any], role: Role, workers: int) -> None:
    """Runs until Ctrl-C or SIGTERM, then ends all processes in order."""
    settings = settings_of(given)
    log_to_stderr(settings)
    run_until_signalled(_run(settings, given, role, workers))


@dataclass(frozen=True, slots=True)
class _Sockets:
    """What is listened on by all, or kept for them; metrics have a port for each process."""

    http: socket.socket
    grpc: socket.socket
    operator: socket.socket
    metrics: Sequence[socket.socket]

    @classmethod
    def opened(cls, settings: Settings, workers: int, stack: ExitStack) -> Self:
        """OSError if a port is taken."""
        host, first = settings.host, settings.metrics_port
        ports = [] if first is None else [first and first + number for number in range(workers)]
        if ports and ports[-1] > _PORT_MAX:
            raise Refused(f"there are no {workers} ports from {first} on: change {METRICS_PORT}")

        def kept(one: socket.socket) -> socket.socket:
            stack.callback(one.close)
            return one

        return cls(
            http=kept(gateway.bind(host, settings.http_port)),
            grpc=kept(reserve("gRPC", host, settings.grpc_port, GRPC_PORT)),
            operator=kept(
                reserve("The operator's gRPC", _HERE, settings.operator_port, OPERATOR_PORT)
            ),
            metrics=[kept(metrics.bind(port)) for port in ports],
        )

    def places(self, settings: Settings) -> Places:
        """Where they are."""
        tls = settings.tls_certificate is not None
        return Places(
            home=settings.home,
            files=settings.files()[:1],
            http=gateway.url_of(self.http, tls=tls),
            grpc=spelled(settings.host, _port(self.grpc)),
            operator=spelled(_HERE, _port(self.operator)),
            metrics=[metrics.url_of(one) for one in self.metrics],
            console=consoles.wants_merchants(settings),
        )

    def order(
        self,
        given: dict[str, Any],
        role: Role,
        store: str,
        number: int,
        dead: Sequence[str],
        *,
        restarts: int,
    ) -> Order:
        """What a process is told; the settings that name sockets are the supervisor's for good."""
        scraped = self.metrics[number] if self.metrics else None
        return Order(
            given=given
            | {
                "http_port": _port(self.http),
                "grpc_port": _port(self.grpc),
                "operator_port": _port(self.operator),
                "metrics_port": None if scraped is None else _port(scraped),
            },
            settles=role.settles,
            store=store,
            http=self.http.fileno(),
            metrics=None if scraped is None else scraped.fileno(),
            owner=name_holder(socket.gethostname(), os.urandom(8)),
            dead=dead,
            restarts=restarts,
            number=number + 1,
        )


async def _run(settings: Settings, given: dict[str, Any], role: Role, workers: int) -> None:
    with ExitStack() as stack:
        try:
            store = shared_store(settings)
            home = Home(settings.home).open()
            sockets = _Sockets.opened(settings, workers, stack)
        except (Refused, OSError) as error:
            fail("Florin does not start", error)
        given = {name: str(one) if isinstance(one, Path) else one for name, one in given.items()}
        given |= {"host": settings.host}
        same = partial(sockets.order, given, role, store)

        async def spawn(number: int, dead: Sequence[str]) -> Spawned:
            return await Spawned.of(
                _COMMAND, same(number, dead, restarts=supervisor.restarts[number])
            )

        supervisor = Supervisor(spawn, workers, SystemClock(), _patience(settings))
        places = sockets.places(settings)

        def tell(phase: Phase) -> None:
            if phase is Phase.UP:
                stack.enter_context(home.announced(places.told()))
                on_hangup(supervisor.reload)
                places.show()
                console.print("\nCtrl-C ends it.")
            systemd.tell(_STATES[phase]())

        try:
            await supervisor.run(tell)
        except DiedEarly:
            # it has said why
            raise SystemExit(1) from None


def _patience(settings: Settings) -> Patience:
    end_s = settings.drain_s + _REST_S + 2 * settings.shutdown_s + _MARGIN_S
    return Patience(end_s=end_s, way_s=1.1 * settings.grpc_connection_s + end_s)


def _port(of: socket.socket) -> int:
    return int(of.getsockname()[1])
