"""`florin up`: run the service until a signal stops it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from florin_server.app import memory
from florin_server.app.home import SetupError
from florin_server.app.sandbox import find_sandbox
from florin_server.app.service import FlorinService
from florin_server.cli.console import console, fail
from florin_server.cli.service.service_addresses import ServiceAddresses
from florin_server.cli.service.signals import run_until_signalled, set_hangup_handler
from florin_server.cli.settings import get_settings, log_to_stderr
from florin_server.db.engine.query import StoreError
from florin_server.settings import Settings

ServiceTask = Callable[[dict[str, str]], Coroutine[Any, Any, None]]


def run_up(
    overrides: dict[str, Any],
    *,
    before_ready: ServiceTask | None = None,
    companion: ServiceTask | None = None,
) -> None:
    """Run until Ctrl-C or SIGTERM, then stop cleanly.

    Run `before_ready` before reporting that Florin is up. Run `companion` next to the service, and
    stop when it ends. Both get the demo credentials.
    """
    settings = get_settings(overrides)
    log_to_stderr(settings)
    run_until_signalled(run_with_tasks(settings, before_ready, companion))


async def run_with_tasks(
    settings: Settings, before_ready: ServiceTask | None, companion: ServiceTask | None
) -> None:
    """Start the service, write its files, report that it is ready, and run until a task ends."""
    try:
        service = await FlorinService.start(settings, defers_ready=True)
    except (SetupError, StoreError, OSError) as error:
        fail("Florin does not start", error)
    try:
        try:
            sandbox = find_sandbox()
            link = None if sandbox is None else await sandbox.ensure_demo_accounts(service)
        except SetupError as error:
            fail("Florin does not start", error)
        memory.freeze_startup_objects()
        set_hangup_handler(service.reload_certificates)
        places = ServiceAddresses.from_service(service)
        with service.home.announce(places.to_json()):
            await service.set_ready()
            if before_ready is not None:
                await before_ready(service.home.read_demo_env())
                console.print()
            places.print_addresses()
            _print_accounts(service, link)
            await _wait_for_tasks(service, companion)
    finally:
        await service.stop()


async def _wait_for_tasks(service: FlorinService, companion: ServiceTask | None) -> None:
    work = [service.workers.wait_for_failure()]
    if companion is not None:
        work.append(companion(service.home.read_demo_env()))
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def _print_accounts(service: FlorinService, link: str | None) -> None:
    """Print the test accounts, and the link of the first payment if there is one."""
    demo = service.home.read_demo_env() if service.settings.has_demo else {}
    if demo and link and sys.stdout.isatty():
        # created by this start, and shown only once
        console.print("\nTest accounts, also in " + str(service.home.demo_env_path) + ":")
        for name, value in demo.items():
            console.print(f"  {name}={value}")
    elif demo:
        # logs keep secrets, and other people see screens
        console.print(f"\nTest accounts are in {service.home.demo_env_path}.")
    if link:
        console.print(f"\nA first payment is ready to pay: {link}")
    console.print("\nCtrl-C ends it.")
