"""`florin gateway`: the REST gateway alone, in front of a service elsewhere."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from florin_server.boot import gateway
from florin_server.boot.addresses import check_bind
from florin_server.boot.home import Refused
from florin_server.cli.console import console, fail, log_to_stderr, settings_of
from florin_server.cli.signals import run_until_signalled
from florin_server.config import Settings


def run(upstream: str, given: dict[str, Any]) -> None:
    """Runs until Ctrl-C or SIGTERM."""
    settings = settings_of(given)
    log_to_stderr()
    run_until_signalled(_run(upstream, settings))


async def _run(upstream: str, settings: Settings) -> None:
    async with AsyncExitStack() as stack:
        try:
            check_bind(settings)
            listener = gateway.bind(settings.host, settings.http_port)
        except (Refused, OSError) as error:
            fail("The gateway does not start", error)
        server = gateway.server_settings(settings)
        url = await gateway.start_remote(upstream, listener, stack, server)
        console.print(f"[bold green]The gateway is up.[/]\nREST  {url}\ngRPC  {upstream}")
        console.print("\nCtrl-C ends it.")
        await asyncio.Event().wait()
