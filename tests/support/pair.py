"""Two services on one database and one chain: a desk at the first one, and the second one."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from florin_server.boot.role import EVERYTHING, Role
from florin_server.boot.service import Service
from florin_server.config import EmbeddedChain
from florin_server.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.rails.connection.jsonrpc import JsonRpc, LocalTransport
from florin_server.rails.evm.sending.transactions import Signer
from pydantic import SecretStr

from tests.support import postgres
from tests.support.api import RestApi
from tests.support.desk import ORDER, Desk, opened
from tests.support.own_chain import CHAIN, CHAIN_ID, own_chain
from tests.support.proxy import FaultyProxy
from tests.support.service import begun, settings
from tests.support.wallet import Wallet


@dataclass
class Pair:
    """`there` asks the second service as the desk's demo merchant."""

    desk: Desk
    other: Service
    control: JsonRpc
    there: RestApi

    async def confirmed(self) -> str:
        """A payment that a wallet confirmed at the second service."""
        wallet = Wallet(CHAIN)
        purse = {"accounts": [wallet.address], "nativeWei": "0x0", "tokenUnits": hex(10**9)}
        await self.control.call("florin_faucet", purse)
        tenant, app = await self.desk.tenant(), await self.desk.wallet_app()
        made = await self.there.call("POST", "/v1/payments", tenant.headers, ORDER)
        payment_id: str = made["paymentId"]
        path = f"/v1/gateway/payment/{payment_id}"
        accounts = {"accounts": [wallet.account]}
        offered = await self.there.call("POST", path + "/options", app, accounts)
        (option,) = offered["options"]
        results = [{"type": "walletRpc", "data": wallet.execute_all(option)}]
        body = {"optionId": option["id"], "results": results}
        await self.there.call("POST", path + "/confirm", app, body)
        return payment_id


@asynccontextmanager
async def paired(
    first: Path, second: Path, *, role: Role = EVERYTHING, **more: Any
) -> AsyncIterator[Pair]:
    """Starts both, with a clock that stands still for both; the second one in a role."""
    more = {"store": SecretStr(postgres.of(first).dsn), **more}
    chain = await EvmDevChain.open(None, EvmDevSettings(chain_id=CHAIN_ID))
    try:
        async with FaultyProxy(chain.handle) as node:
            more["chains"] = (own_chain(node.url, confirmations=1),)
            async with opened(first, **more) as desk:
                control = JsonRpc(LocalTransport(chain.handle))
                relayer = Signer(desk.service.secrets.relayer_key).address
                purse = {"accounts": [relayer], "nativeWei": hex(10**20), "tokenUnits": "0x0"}
                await control.call("florin_faucet", purse)
                # it looked before there was coin
                desk.clock.advance(31)
                for name in ("secrets.json", "demo.env"):
                    shutil.copy(first / name, second / name)
                chosen = settings(second, **more).model_copy(
                    update={"embedded": EmbeddedChain(enabled=False)}
                )
                other = await Service.start(chosen, clock=desk.clock, role=role)
                try:
                    if role.settles:
                        await begun(other)
                    there = RestApi(desk.session, other.http_url, desk.env)
                    yield Pair(desk, other, control, there)
                finally:
                    await other.stop()
    finally:
        await chain.close()
        await postgres.forget(first)
