"""`florin up`: runs the service until it is told to stop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from florin_server.boot import memory
from florin_server.boot.demo_accounts import ensure_demo
from florin_server.boot.home import Refused
from florin_server.boot.service import Service
from florin_server.cli.console import console, fail
from florin_server.cli.service.places import Places
from florin_server.cli.service.signals import on_hangup, run_until_signalled
from florin_server.cli.settings import log_to_stderr, settings_of
from florin_server.config import Settings
from florin_server.devnet.errors import DevChainError
from florin_server.store.engine.query import StoreError

Work = Callable[[dict[str, str]], Coroutine[Any, Any, None]]


def run(given: dict[str, Any], *, first: Work | None = None, beside: Work | None = None) -> None:
    """Runs until Ctrl-C or SIGTERM, then ends cleanly.

    `first` is done before it is told that Florin is up; with `beside` it ends when that is over.
    Both get the demo credentials.
    """
    settings = settings_of(given)
    log_to_stderr(settings)
    run_until_signalled(run_service(settings, first, beside))


async def run_service(settings: Settings, first: Work | None, beside: Work | None) -> None:
    """Start the service, write its files, report it as ready, and run until the work ends."""
    try:
        service = await Service.start(settings, prepares=True)
    except (Refused, StoreError, DevChainError, OSError) as error:
        fail("Florin does not start", error)
    try:
        try:
            link = await ensure_demo(service)
        except Refused as error:
            fail("Florin does not start", error)
        memory.keep()
        on_hangup(service.look_again)
        places = Places.of(service)
        with service.home.announced(places.told()):
            await service.set_ready()
            if first is not None:
                await first(service.home.read_demo_env())
                console.print()
            places.show()
            _show_accounts(service, link)
            await _lasting(service, beside)
    finally:
        await service.stop()


async def _lasting(service: Service, beside: Work | None) -> None:
    work = [service.workers.failed()]
    if beside is not None:
        work.append(beside(service.home.read_demo_env()))
    tasks = [asyncio.create_task(one) for one in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for one in done:
        one.result()


def _show_accounts(service: Service, link: str | None) -> None:
    """Prints the test accounts, and the link of the first payment if there is one."""
    demo = service.home.read_demo_env() if service.settings.has_demo else {}
    if demo and link and sys.stdout.isatty():
        # made now, and shown this once
        console.print("\nTest accounts, also in " + str(service.home.demo_env) + ":")
        for name, value in demo.items():
            console.print(f"  {name}={value}")
    elif demo:
        # what is not a terminal keeps what it is told, and a screen is seen by others
        console.print(f"\nTest accounts are in {service.home.demo_env}.")
    if link:
        console.print(f"\nA first payment waits for a wallet: {link}")
    console.print("\nCtrl-C ends it.")
