"""Two services on one database and one chain: a harness at the first, and the second one."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from florin_sandbox.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.app.role import FULL_ROLE, ProcessRole
from florin_server.app.service import FlorinService
from florin_server.rails.connection.jsonrpc import JsonRpcClient, LocalTransport
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.settings import EmbeddedChainSettings
from pydantic import SecretStr

from tests.support import postgres
from tests.support.api import RestApi
from tests.support.own_chain import CHAIN, CHAIN_ID, make_own_chain
from tests.support.proxy import FaultyNodeProxy
from tests.support.service import make_settings, wait_started
from tests.support.service_harness import ORDER, ServiceHarness, open_service
from tests.support.wallet import EvmTestWallet


@dataclass
class ServicePair:
    """`second_api` calls the second service as the harness's demo merchant."""

    service: ServiceHarness
    other: FlorinService
    control: JsonRpcClient
    second_api: RestApi

    async def create_confirmed(self) -> str:
        """Return a payment that a wallet confirmed at the second service."""
        wallet = EvmTestWallet(CHAIN)
        purse = {"accounts": [wallet.address], "nativeWei": "0x0", "tokenUnits": hex(10**9)}
        await self.control.call("florin_faucet", purse)
        tenant, app = await self.service.tenant(), await self.service.wallet_app()
        created = await self.second_api.call("POST", "/v1/payments", tenant.headers, ORDER)
        payment_id: str = created["paymentId"]
        path = f"/v1/gateway/payment/{payment_id}"
        accounts = {"accounts": [wallet.account]}
        offered = await self.second_api.call("POST", path + "/options", app, accounts)
        (option,) = offered["options"]
        results = [{"type": "walletRpc", "data": wallet.execute_all(option)}]
        body = {"optionId": option["id"], "results": results}
        await self.second_api.call("POST", path + "/confirm", app, body)
        return payment_id


@asynccontextmanager
async def open_pair(
    first: Path, second: Path, *, role: ProcessRole = FULL_ROLE, **more: Any
) -> AsyncIterator[ServicePair]:
    """Start both, with one stopped clock for both; `role` is the second one's role."""
    more = {"store": SecretStr(postgres.get_database(first).dsn), **more}
    chain = await EvmDevChain.open(None, EvmDevSettings(chain_id=CHAIN_ID))
    try:
        async with FaultyNodeProxy(chain.handle) as node:
            more["chains"] = (make_own_chain(node.url, confirmations=1),)
            async with open_service(first, **more) as desk:
                control = JsonRpcClient(LocalTransport(chain.handle))
                relayer = EvmSigner(desk.service.secrets.relayer_key).address
                purse = {"accounts": [relayer], "nativeWei": hex(10**20), "tokenUnits": "0x0"}
                await control.call("florin_faucet", purse)
                # it looked before there was coin
                desk.clock.advance(31)
                for name in ("secrets.json", "demo.env"):
                    shutil.copy(first / name, second / name)
                chosen = make_settings(second, **more).model_copy(
                    update={"embedded": EmbeddedChainSettings(enabled=False)}
                )
                other = await FlorinService.start(chosen, clock=desk.clock, role=role)
                try:
                    if role.runs_workers:
                        await wait_started(other)
                    there = RestApi(desk.session, other.http_url, desk.env)
                    yield ServicePair(desk, other, control, there)
                finally:
                    await other.stop()
    finally:
        await chain.close()
        await postgres.drop_database(first)
