"""Two services on one database: one signs, both answer, and one goes on for the other that died."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress

import pytest
import pytest_asyncio
from florin_server.boot.service import Service
from florin_server.config import EmbeddedChain
from florin_server.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.devnet.genesis import DEVNET
from florin_server.rails.connection.jsonrpc import JsonRpc, LocalTransport
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.evm.settings import EvmAsset, EvmChain
from pydantic import SecretStr

from tests.support import postgres
from tests.support.api import RestApi
from tests.support.desk import ORDER, opened
from tests.support.proxy import FaultyProxy
from tests.support.service import begun, settings
from tests.support.until import until
from tests.support.wallet import Wallet

pytestmark = [
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
    ),
]

CHAIN = "eip155:31338"
TAKEN_OVER_S = 30


def chain_at(url: str) -> EvmChain:
    token = DEVNET.token
    asset = EvmAsset(
        address=token.address,
        name=token.name,
        symbol=token.symbol,
        decimals=token.decimals,
        peg=token.peg,
        domain_version=token.version,
    )
    return EvmChain(
        chain_id=31338,
        name="Own",
        rpc_url=[url],
        poll_ms=20,
        confirmations=1,
        settler=DEVNET.settler,
        treasury="0x" + "fe" * 20,
        assets=(asset,),
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two(tmp_path_factory):
    """A desk at the first service, the second one, and the chain's faucet."""
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    more = {"store": SecretStr(postgres.of(first).dsn)}
    chain = await EvmDevChain.open(None, EvmDevSettings(chain_id=31338))
    try:
        async with FaultyProxy(chain.handle) as node:
            more["chains"] = (chain_at(node.url),)
            async with opened(first, **more) as desk:
                control = JsonRpc(LocalTransport(chain.handle))
                relayer = Signer(desk.service.secrets.relayer_key).address
                purse = {"accounts": [relayer], "nativeWei": hex(10**20), "tokenUnits": "0x0"}
                await control.call("florin_faucet", purse)
                for name in ("secrets.json", "demo.env"):
                    shutil.copy(first / name, second / name)
                chosen = settings(second, **more).model_copy(
                    update={"embedded": EmbeddedChain(enabled=False)}
                )
                other = await Service.start(chosen, clock=desk.clock)
                try:
                    await begun(other)
                    yield desk, other, control
                finally:
                    await other.stop()
    finally:
        await chain.close()
        await postgres.forget(first)


async def confirmed(desk, other, control) -> tuple[RestApi, str]:
    """A payment that a wallet confirmed at the second service."""
    wallet = Wallet(CHAIN)
    purse = {"accounts": [wallet.address], "nativeWei": "0x0", "tokenUnits": hex(10**9)}
    await control.call("florin_faucet", purse)
    tenant, app = await desk.tenant(), await desk.wallet_app()
    there = RestApi(desk.session, other.http_url, desk.env)
    made = (await there.call("POST", "/v1/payments", tenant.headers, ORDER))["paymentId"]
    path = f"/v1/gateway/payment/{made}"
    offered = await there.call("POST", path + "/options", app, {"accounts": [wallet.account]})
    (option,) = offered["options"]
    results = [{"type": "walletRpc", "data": wallet.execute_all(option)}]
    body = {"optionId": option["id"], "results": results}
    await there.call("POST", path + "/confirm", app, body)
    return there, made


async def status(service: Service, payment_id: str) -> str:
    found = await service.app.store.reader.payment(payment_id)
    return "" if found is None else str(found.status)


async def test_one_signs_what_the_other_accepted(two):
    desk, other, control = two
    assert desk.service.app.settlers[CHAIN].executors[0].leads
    assert not other.app.settlers[CHAIN].executors[0].leads
    _, payment_id = await confirmed(desk, other, control)

    async def ended() -> bool:
        return await status(desk.service, payment_id) == "succeeded"

    async def passing() -> None:
        desk.clock.advance(1)

    await until(ended, meanwhile=passing)
    assert await status(other, payment_id) == "succeeded"


async def test_the_settlements_of_one_that_died_are_taken_over(two):
    desk, other, control = two
    # as a killed process leaves it: nothing is given back
    for task in desk.service.workers.tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    _, payment_id = await confirmed(desk, other, control)
    assert await status(other, payment_id) == "processing"
    begin, sender = desk.clock.now_us(), other.app.settlers[CHAIN].executors[0]

    async def ended() -> bool:
        return await status(other, payment_id) == "succeeded"

    async def passing() -> None:
        desk.clock.advance(1)

    await until(lambda: sender.leads, meanwhile=passing)
    assert desk.clock.now_us() - begin <= TAKEN_OVER_S * 1_000_000
    await until(ended, meanwhile=passing)
