"""`florin serve` and `florin worker`: run the service for production, or a part of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from florin_server.app import memory
from florin_server.app.home import SetupError
from florin_server.app.processes import systemd
from florin_server.app.role import InheritedSockets, ProcessRole
from florin_server.app.service import FlorinService
from florin_server.cli.console import console, fail
from florin_server.cli.service.service_addresses import ServiceAddresses
from florin_server.cli.service.signals import run_until_signalled, set_hangup_handler
from florin_server.cli.settings import get_settings, log_to_stderr
from florin_server.db.engine.query import StoreError
from florin_server.settings import Settings


def run_service(overrides: dict[str, Any], role: ProcessRole) -> None:
    """Run in this process until Ctrl-C or SIGTERM, then stop cleanly."""
    settings = get_settings(overrides)
    log_to_stderr(settings)
    run_until_signalled(_serve_until_stopped(settings, role))


async def start_service(
    settings: Settings,
    role: ProcessRole,
    inherited: InheritedSockets | None = None,
    *,
    defers_ready: bool = False,
) -> FlorinService:
    """Start the service, and return it when it answers; end the program if it does not start."""
    try:
        service = await FlorinService.start(
            settings, role=role, inherited=inherited, defers_ready=defers_ready
        )
    except (SetupError, StoreError, OSError) as error:
        fail("Florin does not start", error)
    memory.freeze_startup_objects()
    set_hangup_handler(service.reload_certificates)
    return service


async def _serve_until_stopped(settings: Settings, role: ProcessRole) -> None:
    service = await start_service(settings, role, defers_ready=True)
    try:
        places = ServiceAddresses.from_service(service)
        with _announce(service, places, role):
            await service.set_ready()
            places.print_addresses()
            console.print("\nCtrl-C ends it.")
            systemd.notify(systemd.READY_STATE)
            await service.workers.wait_for_failure()
    finally:
        systemd.notify(systemd.STOPPING_STATE)
        await service.stop()


@contextmanager
def _announce(
    service: FlorinService, places: ServiceAddresses, role: ProcessRole
) -> Iterator[None]:
    """Publish the addresses for commands; a worker only if no other process has done so."""
    if not role.serves_callers and service.home.find_addresses() is not None:
        yield
        return
    with service.home.announce(places.to_json()):
        yield
