"""`florin up`: runs the service until it is told to stop."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from typing import Any

import uvloop
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from florin_server.boot.demo_accounts import ensure_demo
from florin_server.boot.home import write_private
from florin_server.boot.service import Refused, Service
from florin_server.config import Settings
from florin_server.store.sqlite import StoreLocked

console = Console(highlight=False)


def settings_of(given: dict[str, Any]) -> Settings:
    """The settings; ends the program with a sentence if they are not valid."""
    try:
        return Settings(**given)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
        )
        console.print(f"[red]The settings are not valid:[/] {faults}")
        raise SystemExit(2) from error


def run(given: dict[str, Any]) -> None:
    """Runs until Ctrl-C or SIGTERM, then ends cleanly."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    uvloop.run(_up(settings_of(given)))


async def _up(settings: Settings) -> None:
    service, link = await start(settings)
    show(service, link)
    await serve(service)


async def start(settings: Settings) -> tuple[Service, str | None]:
    """Starts the service; in an empty one makes demo accounts and a first checkout link."""
    try:
        service = await Service.start(settings)
    except (Refused, StoreLocked, OSError) as error:
        console.print(f"[red]Florin does not start:[/] {error}")
        raise SystemExit(1) from error
    link = await ensure_demo(service)
    addresses = {
        "pid": os.getpid(),
        "http": service.http_url,
        "grpc": service.grpc.target,
        "operator": service.grpc.operator_target,
    }
    write_private(service.home.running, json.dumps(addresses) + "\n")
    return service, link


async def serve(service: Service) -> None:
    """Waits for the signal to stop, or for a worker to fail, then stops."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stopping.set)
    waits = [asyncio.create_task(stopping.wait()), asyncio.create_task(service.failed())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if waits[1].done():
            waits[1].result()
    finally:
        for wait in waits:
            wait.cancel()
        console.print("Stopping …")
        service.home.running.unlink(missing_ok=True)
        await service.stop()


def show(service: Service, link: str | None = None) -> None:
    """Prints where everything is, and the link of the first payment if there is one."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_row("REST", service.http_url)
    table.add_row("gRPC", service.grpc.target)
    if service.evm_rpc_url:
        table.add_row("Test chain", f"{service.evm_rpc_url}  (JSON-RPC, chain id 31337)")
    table.add_row("State", str(service.home.path))
    console.print("[bold green]Florin is up.[/]")
    console.print(table)
    demo = service.home.read_demo_env()
    if demo:
        console.print("\nTest accounts, also in " + str(service.home.demo_env) + ":")
        for name, value in demo.items():
            console.print(f"  {name}={value}", soft_wrap=True)
    if link:
        console.print(f"\nA first payment waits for a wallet: {link}", soft_wrap=True)
