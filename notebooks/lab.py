"""What the notebooks share: a Florin to talk to, and clients for it.

`start()` connects to the Florin that FLORIN_GRPC_TARGET names, with the credentials of its demo.env
in the environment; without that variable it starts one of its own in a temporary folder.
`simulate()` is the same on a Florin that merchants and buyers have used for days.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
from florin_client import AsyncClient
from florin_client.aio import AsyncGateway, AsyncMerchant

# a Monday
FIRST = "2026-06-01"


@dataclass
class Lab:
    """A Florin and everything needed to use it, as a merchant and as a wallet.

    `env` holds what demo.env holds, `report` what `florin simulate --json` told if it was used.
    """

    env: dict[str, str]
    gateway: AsyncGateway
    merchant: AsyncMerchant
    _session: aiohttp.ClientSession
    _stack: AsyncExitStack = field(repr=False)
    report: dict[str, Any] = field(default_factory=dict, repr=False)

    async def chain(self, method: str, *params: Any) -> Any:
        """Asks the chain by JSON-RPC."""
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        async with self._session.post(self.env["FLORIN_EVM_RPC_URL"], json=question) as answer:
            content = await answer.json()
        if "error" in content:
            raise RuntimeError(content["error"])
        return content["result"]

    async def balance(self, address: str) -> int:
        """Minor units of the test token that an address holds, read from the chain."""
        token = self.env["FLORIN_EVM_ASSET"].rpartition(":")[2]
        data = "0x70a08231" + address[2:].lower().rjust(64, "0")
        return int(await self.chain("eth_call", {"to": token, "data": data}, "latest"), 16)

    async def close(self) -> None:
        """Ends connections, and Florin if it was started here."""
        await self._stack.aclose()


async def start() -> Lab:
    """A lab, connected and ready."""
    async with AsyncExitStack() as stack:
        env = dict(os.environ)
        if "FLORIN_GRPC_TARGET" not in env:
            env = await _served(_folder(stack), stack)
        return await _connected(env, stack)
    raise AssertionError


async def simulate(seed: int = 7, payments: int = 500, days: int = 7, **knobs: Any) -> Lab:
    """A lab on a Florin of its own, with days of payments in it: the same for the same seed.

    They begin on a Monday, `begin` names another day. Further knobs are the options of
    `florin simulate`. RuntimeError, with its sentence, for what cannot be simulated.
    """
    async with AsyncExitStack() as stack:
        home = _folder(stack)
        chosen = {"begin": FIRST, "seed": seed, "payments": payments, "days": days, **knobs}
        report = await _simulated(home, chosen)
        lab = await _connected(await _served(home, stack), stack)
        lab.report = report
        return lab
    raise AssertionError


async def _simulated(home: Path, chosen: dict[str, Any]) -> dict[str, Any]:
    """Runs the command beside this process, and shows how far it is."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in chosen.items()]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from florin_server.cli import main; main()"),
        *("simulate", "--json", "--home", str(home), *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**20,
    )
    told: dict[str, Any] = {}
    show = _progress(int(chosen["payments"]))
    async for line in process.stdout or ():
        told = json.loads(line)
        if "done" in told:
            show(told["done"])
    _, complaint = await process.communicate()
    if process.returncode:
        raise RuntimeError(complaint.decode().strip().splitlines()[-1])
    return told


def _progress(total: int) -> Callable[[int], None]:
    """Draws a bar where one can be drawn again and again: in a notebook, or on a terminal."""
    if "ipykernel" in sys.modules:
        from IPython.display import ProgressBar

        bar = ProgressBar(total)
        bar.display()
        return lambda done: setattr(bar, "progress", done)
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    drawn = Progress(console=console, disable=not console.is_terminal)
    task = drawn.add_task("Payments", total=total)

    def show(done: int) -> None:
        drawn.start()
        drawn.update(task, completed=done)
        if done == total:
            drawn.stop()

    return show


def _folder(stack: AsyncExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory())) / "home"


async def _served(home: Path, stack: AsyncExitStack) -> dict[str, str]:
    # imported here: a notebook that talks to a Florin elsewhere needs no server
    from florin_server.boot.demo_accounts import ensure_demo
    from florin_server.boot.service import Service
    from florin_server.config import Settings

    service = await Service.start(Settings(home=home, http_port=0, grpc_port=0))
    stack.push_async_callback(service.stop)
    await ensure_demo(service)
    return service.home.read_demo_env()


async def _connected(env: dict[str, str], stack: AsyncExitStack) -> Lab:
    where: dict[str, Any] = {"target": env["FLORIN_GRPC_TARGET"], "plaintext": True}
    merchant = await stack.enter_async_context(
        AsyncClient(
            **where, api_key=env["FLORIN_PARTNER_KEY"], merchant_id=env["FLORIN_MERCHANT_ID"]
        )
    )
    wallet = await stack.enter_async_context(
        AsyncClient(**where, app_id=env["FLORIN_APP_ID"], client_id=env["FLORIN_CLIENT_ID"])
    )
    session = await stack.enter_async_context(aiohttp.ClientSession())
    return Lab(env, wallet.gateway, merchant.merchant, session, stack.pop_all())


def units(amount_minor: int | str, decimals: int) -> Decimal:
    """Minor units as whole units, exactly: amounts of 256 bits fit in no float."""
    return Decimal(int(amount_minor)).scaleb(-decimals)
