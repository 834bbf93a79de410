"""What the notebooks share: a Florin to talk to, and clients for it.

`start()` connects to the Florin that FLORIN_GRPC_TARGET names, with the credentials of its demo.env
in the environment; without that variable it starts one of its own in a temporary folder.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
from florin_client import AsyncClient
from florin_client.aio import AsyncGateway, AsyncMerchant


@dataclass
class Lab:
    """A Florin and everything needed to use it, as a merchant and as a wallet.

    `env` holds what demo.env holds.
    """

    env: dict[str, str]
    gateway: AsyncGateway
    merchant: AsyncMerchant
    _session: aiohttp.ClientSession
    _stack: AsyncExitStack = field(repr=False)

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
    stack = AsyncExitStack()
    env = dict(os.environ)
    if "FLORIN_GRPC_TARGET" not in env:
        env = await _own(stack)
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
    return Lab(env, wallet.gateway, merchant.merchant, session, stack)


async def _own(stack: AsyncExitStack) -> dict[str, str]:
    # imported here: a notebook that talks to a Florin elsewhere needs no server
    from florin_server.boot.demo_accounts import ensure_demo
    from florin_server.boot.service import Service
    from florin_server.config import Settings

    home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    service = await Service.start(Settings(home=home, http_port=0, grpc_port=0))
    stack.push_async_callback(service.stop)
    await ensure_demo(service)
    return service.home.read_demo_env()


def units(amount_minor: int | str, decimals: int) -> Decimal:
    """Minor units as whole units, exactly: amounts of 256 bits fit in no float."""
    return Decimal(int(amount_minor)).scaleb(-decimals)
