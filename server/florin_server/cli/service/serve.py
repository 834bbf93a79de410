"""`florin serve` and `florin worker`: the service for production, or a part of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from florin_server.boot import memory
from florin_server.boot.home import Refused
from florin_server.boot.processes import systemd
from florin_server.boot.role import Handed, Role
from florin_server.boot.service import Service
from florin_server.cli.console import console, fail
from florin_server.cli.service.places import Places
from florin_server.cli.service.signals import on_hangup, run_until_signalled
from florin_server.cli.settings import log_to_stderr, settings_of
from florin_server.config import Settings
from florin_server.devnet.errors import DevChainError
from florin_server.store.engine.query import StoreError


def run(given: dict[str, Any], role: Role) -> None:
    """Runs in this process until Ctrl-C or SIGTERM, then ends cleanly."""
    settings = settings_of(given)
    log_to_stderr(settings)
    run_until_signalled(_serve(settings, role))


async def started(
    settings: Settings, role: Role, handed: Handed | None = None, *, prepares: bool = False
) -> Service:
    """The service, once it answers; ends the program with a sentence if it does not start."""
    try:
        service = await Service.start(settings, role=role, handed=handed, prepares=prepares)
    except (Refused, StoreError, DevChainError, OSError) as error:
        fail("Florin does not start", error)
    memory.keep()
    on_hangup(service.look_again)
    return service


async def _serve(settings: Settings, role: Role) -> None:
    service = await started(settings, role, prepares=True)
    try:
        places = Places.of(service)
        with _announced(service, places, role):
            await service.set_ready()
            places.show()
            console.print("\nCtrl-C ends it.")
            systemd.tell(systemd.READY)
            await service.workers.failed()
    finally:
        systemd.tell(systemd.STOPPING)
        await service.stop()


@contextmanager
def _announced(service: Service, places: Places, role: Role) -> Iterator[None]:
    """Commands find who answers; a worker only where nobody else does."""
    if not role.answers and service.home.addresses() is not None:
        yield
        return
    with service.home.announced(places.told()):
        yield
