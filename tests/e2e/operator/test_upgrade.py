"""Homes of released versions: this version goes on where they stopped.

Each archive is a home that the version itself made, while its chain sealed no blocks: payments that
are done, refunded, confirmed and open, a refund on its way, a receipt. `facts.json` says which.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from florin_server.boot.chains import connected
from florin_server.boot.chains.connected import embedded_chain
from florin_server.clock import TestClock
from florin_server.config import Settings
from florin_server.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.devnet.genesis import DEVNET, artifact
from florin_server.rails.connection.jsonrpc import JsonRpc, LocalTransport
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.evm.settings import EvmChain
from florin_server.store.operator import executors

from tests.support.anvil_node import by_faucet
from tests.support.api import Refused
from tests.support.books import SETTINGS, exact
from tests.support.desk import START_S, Desk, opened
from tests.support.payout_shop import PRICE
from tests.support.released import RELEASED, unpack_home
from tests.support.until import until
from tests.support.wallet import Wallet

# what the faucet gave each buyer
GIVEN = 10_000_000_000


@pytest.fixture(params=RELEASED)
def home(request, tmp_path) -> Path:
    return unpack_home(request.param, tmp_path)


async def test_a_home_of_a_released_version_goes_on_under_this_one(home):
    # an archive holds a file, on whatever store the other tests run
    async with opened(home, **SETTINGS, store=None) as desk:
        facts = json.loads((home / "facts.json").read_text())

        async def as_offered(facts: dict[str, Any]) -> None:
            option = facts["open"]
            await desk.rest.confirm(facts["payments"]["open"], option["option"], option["outputs"])

        await goes_on(desk, facts, as_offered)
        wallet = facts["wallets"]["open"]
        await until(lambda: desk.chain.balance(wallet), GIVEN - PRICE + 1)
        await exact(desk)


async def test_settlements_through_the_former_contract_are_followed_beside_the_new_one(
    home, monkeypatch
):
    new = await deploy_another(home)

    def with_both(settings: Settings, treasury: Signer) -> EvmChain:
        changed = {"settler": new, "former_settlers": (DEVNET.settler,)}
        return embedded_chain(settings, treasury).model_copy(update=changed)

    monkeypatch.setattr(connected, "embedded_chain", with_both)
    async with opened(home, **SETTINGS, store=None) as desk:
        facts = json.loads((home / "facts.json").read_text())

        async def through_the_new_one(facts: dict[str, Any]) -> None:
            payment_id, option = facts["payments"]["open"], facts["open"]
            with pytest.raises(Refused, match="quote_expired"):
                await desk.rest.confirm(payment_id, option["option"], option["outputs"])
            wallet = Wallet()
            await desk.chain.fund(wallet.address)
            (again,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
            await desk.rest.confirm(payment_id, again["id"], wallet.execute_all(again))

        await goes_on(desk, facts, through_the_new_one)
        offer = await desk.offer()
        await desk.chain.fund(offer.wallet.address)
        await desk.confirm(offer)
        assert (await desk.ended(offer.payment_id))["status"] == "succeeded"
        await desk.rest.refund(offer.payment_id)
        assert (await desk.refunded(offer.payment_id))["status"] == "succeeded"
        for payment_id, headers, settler in (
            (facts["payments"]["done"], facts["headers"], DEVNET.settler),
            (facts["payments"]["confirmed"], facts["headers"], DEVNET.settler),
            (facts["payments"]["open"], facts["headers"], new),
            (offer.payment_id, desk.rest.merchant, new),
        ):
            path = f"/v1/payments/{payment_id}"
            ((tx_id,),) = desk.select("SELECT tx_id FROM payment WHERE id = ?", payment_id)
            told = await desk.chain.ask("eth_getTransactionReceipt", tx_id)
            assert settler in {log["address"] for log in told["logs"]}
            receipt = await desk.ask("GET", f"{path}/receipt", headers)
            assert receipt.status == 200
        await exact(desk)


async def deploy_another(home: Path) -> str:
    """Deploy the settlement contract once more on a home's chain, and return its address."""
    clock = TestClock(START_S * 1_000_000)
    settings = EvmDevSettings(chain_id=DEVNET.chain_id, clock=clock)
    chain = await EvmDevChain.open(home / "evm.db", settings)
    try:
        rpc = JsonRpc(LocalTransport(chain.handle))
        nonce = int(await rpc.call("eth_getTransactionCount", DEVNET.faucet, "latest"), 16)
        code = artifact("PaySettler").bytecode
        raw = by_faucet(nonce, chainId=DEVNET.chain_id, data=code, gas=3_000_000)
        tx_hash = await rpc.call("eth_sendRawTransaction", "0x" + raw.hex())
        made = await rpc.call("eth_getTransactionReceipt", tx_hash)
        return str(made["contractAddress"]).lower()
    finally:
        await chain.close()


async def goes_on(
    desk: Desk, facts: dict[str, Any], pays: Callable[[dict[str, Any]], Awaitable[None]]
) -> None:
    """What is in the home arrives at its end; `pays` pays what is open."""
    ids, headers = facts["payments"], facts["headers"]

    async def detail(name: str) -> dict[str, Any]:
        path = f"/v1/payments/{ids[name]}"
        return await desk.rest.call("GET", path, headers)

    assert await desk.service.app.store.read(executors.pauses()) == {}
    # what was done stays so, and its receipt is the same
    assert (await detail("done"))["status"] == "succeeded"
    told = await desk.ask("GET", f"/v1/payments/{ids['done']}/receipt", headers)
    assert told.text == facts["receipt"]
    before = facts["refund"]
    (refund,) = (await detail("refunded"))["refunds"]
    assert {key: refund[key] for key in before} == before
    # what was on its way arrives
    assert (await desk.ended(ids["confirmed"]))["status"] == "succeeded"
    done = await desk.refunded(ids["refunding"], headers)
    assert (done["refundId"], done["status"]) == (facts["refundAsked"]["refundId"], "succeeded")
    await pays(facts)
    assert (await desk.ended(ids["open"]))["status"] == "succeeded"
    # and is refunded in parts
    unit = done["amount"]["unit"]
    part = {"paymentId": ids["open"], "amount": {"unit": unit, "value": "1"}}
    await desk.rest.call("POST", "/v1/refunds", headers, part)
    await desk.refunded(ids["open"], headers)
    for name, more in {"refunding": 0, "confirmed": -PRICE}.items():
        await until(lambda n=name: desk.chain.balance(facts["wallets"][n]), GIVEN + more)
