"""`florin up`: runs the service until it is told to stop."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any

from florin_server.boot import memory
from florin_server.boot.demo_accounts import ensure_demo
from florin_server.boot.home import Refused
from florin_server.boot.service import Service
from florin_server.cli.console import console, fail, log_to_stderr, settings_of
from florin_server.cli.service.signals import run_until_signalled
from florin_server.config import Settings
from florin_server.devnet.errors import DevChainError
from florin_server.store.engine.query import StoreError

First = Callable[[dict[str, str]], Awaitable[None]]


def run(given: dict[str, Any], first: First | None = None) -> None:
    """Runs until Ctrl-C or SIGTERM, then ends cleanly; `first` gets the demo credentials."""
    settings = settings_of(given)
    log_to_stderr()
    run_until_signalled(_up(settings, first))


async def _up(settings: Settings, first: First | None) -> None:
    try:
        service = await Service.start(settings)
    except (Refused, StoreError, DevChainError, OSError) as error:
        fail("Florin does not start", error)
    try:
        try:
            link = await ensure_demo(service)
        except Refused as error:
            fail("Florin does not start", error)
        memory.keep()
        addresses = {
            "http": service.http_url,
            "grpc": service.grpc.target,
            "operator": service.grpc.operator_target,
            "evm_rpc": service.evm_rpc_url,
            "solana_rpc": service.solana_rpc_url,
            "settings": "".join(str(one.resolve()) for one in settings.files()[:1]),
        }
        with service.home.announced(addresses):
            if first is not None:
                await first(service.home.read_demo_env())
                console.print()
            _show(service, link)
            await service.workers.failed()
    finally:
        await service.stop()


def _show(service: Service, link: str | None) -> None:
    """Prints where everything is, and the link of the first payment if there is one."""
    places = {"REST": service.http_url, "gRPC": service.grpc.target}
    if service.metrics_url:
        places["Metrics"] = service.metrics_url
    if service.evm_rpc_url:
        places["Test chain"] = f"{service.evm_rpc_url}  (JSON-RPC, chain id 31337)"
    if service.solana_rpc_url:
        places["Solana test chain"] = f"{service.solana_rpc_url}  (JSON-RPC)"
    places["State"] = str(service.home.path)
    for file in service.settings.files()[:1]:
        places["Settings"] = str(file)
    console.print("[bold green]Florin is up.[/]")
    for what, place in places.items():
        # whole, however narrow the terminal: they are there to be copied
        console.print(f"{what:<{max(map(len, places))}}  {place}", markup=False)
    demo = service.home.read_demo_env() if service.settings.has_demo else {}
    if demo and sys.stdout.isatty():
        console.print("\nTest accounts, also in " + str(service.home.demo_env) + ":")
        for name, value in demo.items():
            console.print(f"  {name}={value}")
    elif demo:
        # what is not a terminal keeps what it is told: logs, files, other people's screens
        console.print(f"\nTest accounts are in {service.home.demo_env}.")
    if link:
        console.print(f"\nA first payment waits for a wallet: {link}")
    console.print("\nCtrl-C ends it.")
