"""`florin serve --workers N`: run several processes on one machine, on the same ports."""

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

from florin_server.app.home import SetupError, StateFolder
from florin_server.app.processes import systemd
from florin_server.app.processes.child import SpawnedProcess
from florin_server.app.processes.child_config import ChildConfig
from florin_server.app.processes.sharing import get_shared_store
from florin_server.app.processes.supervisor import (
    ProcessSupervisor,
    RestartPolicy,
    StartupFailed,
    SupervisorPhase,
)
from florin_server.app.role import ProcessRole
from florin_server.app.servers import consoles, gateway, metrics
from florin_server.app.servers.addresses import (
    GRPC_PORT_SETTING,
    METRICS_PORT_SETTING,
    OPERATOR_PORT_SETTING,
    format_address,
    reserve_port,
)
from florin_server.base.clock import SystemClock
from florin_server.cli.console import console, fail
from florin_server.cli.service.service_addresses import ServiceAddresses
from florin_server.cli.service.signals import run_until_signalled, set_hangup_handler
from florin_server.cli.settings import get_settings, log_to_stderr
from florin_server.domain.settlement.lease import name_holder
from florin_server.settings import Settings

# -P: never import modules from the working directory, which the service can write to
_COMMAND = (sys.executable, "-P", "-m", "florin_server.cli.service.child")
_LOOPBACK = "127.0.0.1"
_PORT_MAX = 65_535
# the time that REST gives open calls, beside gRPC's two servers, and a margin for closing
_HTTP_DRAIN_S, _MARGIN_S = 10, 10
_SYSTEMD_STATES: Mapping[SupervisorPhase, Callable[[], str]] = {
    SupervisorPhase.UP: lambda: systemd.READY_STATE,
    SupervisorPhase.RELOADING: systemd.build_reloading_state,
    SupervisorPhase.RELOADED: lambda: systemd.READY_STATE,
    SupervisorPhase.STOPPING: lambda: systemd.STOPPING_STATE,
}


def run_supervised(overrides: dict[str, Any], role: ProcessRole, workers: int) -> None:
    """Run until Ctrl-C or SIGTERM, then stop all processes in order."""
    settings = get_settings(overrides)
    log_to_stderr(settings)
    run_until_signalled(_supervise(settings, overrides, role, workers))


@dataclass(frozen=True, slots=True)
class _SharedSockets:
    """The sockets of all processes; metrics have one for each process."""

    http: socket.socket
    grpc: socket.socket
    operator: socket.socket
    metrics: Sequence[socket.socket]

    @classmethod
    def open(cls, settings: Settings, workers: int, stack: ExitStack) -> Self:
        """Open the sockets, and close them with the stack. OSError if a port is in use."""
        host, first = settings.host, settings.metrics_port
        ports = [] if first is None else [first and first + number for number in range(workers)]
        if ports and ports[-1] > _PORT_MAX:
            raise SetupError(
                f"there are not {workers} ports from {first} on: change {METRICS_PORT_SETTING}"
            )

        def register_socket(bound_socket: socket.socket) -> socket.socket:
            stack.callback(bound_socket.close)
            return bound_socket

        return cls(
            http=register_socket(gateway.bind_socket(host, settings.http_port)),
            grpc=register_socket(reserve_port("gRPC", host, settings.grpc_port, GRPC_PORT_SETTING)),
            operator=register_socket(
                reserve_port(
                    "The operator's gRPC", _LOOPBACK, settings.operator_port, OPERATOR_PORT_SETTING
                )
            ),
            metrics=[register_socket(metrics.bind_socket(port)) for port in ports],
        )

    def get_addresses(self, settings: Settings) -> ServiceAddresses:
        """Return the addresses of the sockets."""
        tls = settings.tls_certificate is not None
        return ServiceAddresses(
            home=settings.home,
            files=settings.list_files()[:1],
            http=gateway.get_url(self.http, tls=tls),
            grpc=format_address(settings.host, _get_port(self.grpc)),
            operator=format_address(_LOOPBACK, _get_port(self.operator)),
            metrics=[metrics.get_url(metric) for metric in self.metrics],
            has_console=consoles.has_merchant_console(settings),
        )

    def build_child_config(
        self,
        overrides: dict[str, Any],
        role: ProcessRole,
        store: str,
        number: int,
        dead_owners: Sequence[str],
        *,
        restarts: int,
    ) -> ChildConfig:
        """Return the configuration of a process; its ports always come from the supervisor."""
        scraped = self.metrics[number] if self.metrics else None
        return ChildConfig(
            overrides=overrides
            | {
                "http_port": _get_port(self.http),
                "grpc_port": _get_port(self.grpc),
                "operator_port": _get_port(self.operator),
                "metrics_port": None if scraped is None else _get_port(scraped),
            },
            settles=role.runs_workers,
            store=store,
            http=self.http.fileno(),
            metrics=None if scraped is None else scraped.fileno(),
            owner=name_holder(socket.gethostname(), os.urandom(8)),
            dead=dead_owners,
            restarts=restarts,
            number=number + 1,
        )


async def _supervise(
    settings: Settings, overrides: dict[str, Any], role: ProcessRole, workers: int
) -> None:
    with ExitStack() as stack:
        try:
            store = get_shared_store(settings)
            home = StateFolder(settings.home).open()
            sockets = _SharedSockets.open(settings, workers, stack)
        except (SetupError, OSError) as error:
            fail("Florin does not start", error)
        overrides = {
            name: str(value) if isinstance(value, Path) else value
            for name, value in overrides.items()
        }
        overrides |= {"host": settings.host}
        same = partial(sockets.build_child_config, overrides, role, store)

        async def spawn(number: int, dead: Sequence[str]) -> SpawnedProcess:
            return await SpawnedProcess.spawn(
                _COMMAND, same(number, dead, restarts=supervisor.restart_counts[number])
            )

        supervisor = ProcessSupervisor(spawn, workers, SystemClock(), _build_policy(settings))
        places = sockets.get_addresses(settings)

        def tell(phase: SupervisorPhase) -> None:
            if phase is SupervisorPhase.UP:
                stack.enter_context(home.announce(places.to_json()))
                set_hangup_handler(supervisor.request_reload)
                places.print_addresses()
                console.print("\nCtrl-C ends it.")
            systemd.notify(_SYSTEMD_STATES[phase]())

        try:
            await supervisor.run(tell)
        except StartupFailed:
            # the process has reported why
            raise SystemExit(1) from None


def _build_policy(settings: Settings) -> RestartPolicy:
    end_s = settings.drain_s + _HTTP_DRAIN_S + 2 * settings.shutdown_s + _MARGIN_S
    return RestartPolicy(
        stop_timeout_s=end_s, drain_timeout_s=1.1 * settings.grpc_connection_s + end_s
    )


def _get_port(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])
