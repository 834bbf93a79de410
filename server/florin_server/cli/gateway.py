"""`florin gateway`: the REST gateway alone, in front of a service elsewhere."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack

import uvloop
from rich.console import Console

from florin_server.boot import gateway

console = Console(highlight=False)


def run(upstream: str, host: str, http_port: int) -> None:
    """Runs until Ctrl-C or SIGTERM."""
    uvloop.run(_run(upstream, host, http_port))


async def _run(upstream: str, host: str, http_port: int) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stopping.set)
    async with AsyncExitStack() as stack:
        try:
            listener = gateway.bind(host, http_port)
        except OSError as error:
            console.print(f"[red]{host}:{http_port} cannot be used:[/] {error.strerror}")
            raise SystemExit(1) from error
        url = await gateway.start_remote(upstream, listener, stack)
        console.print(f"[bold green]The gateway is up.[/]\nREST  {url}\ngRPC  {upstream}")
        await stopping.wait()
        console.print("Stopping …")
