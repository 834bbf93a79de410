"""Homes of released versions: this version continues from their state.

Each archive is a home that the version itself made, while its chain sealed no blocks: payments that
are done, refunded, confirmed and open, a refund on its way, a receipt. `facts.json` names them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from florin_sandbox.chains import evm
from florin_sandbox.chains.evm import build_chain
from florin_sandbox.devnet.evm import EvmDevChain, EvmDevSettings
from florin_sandbox.devnet.genesis import DEVNET, load_artifact
from florin_server.base.clock import TestClock
from florin_server.operations.store import executors
from florin_server.rails.connection.jsonrpc import JsonRpcClient, LocalTransport
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.settings import Settings

from tests.support.anvil_node import sign_faucet_transaction
from tests.support.api import ApiCallError
from tests.support.books import SETTINGS, wait_exact
from tests.support.payout_merchant import PRICE
from tests.support.released_versions import RELEASED, unpack_home
from tests.support.service_harness import START_S, ServiceHarness, open_service
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

# the faucet's gift to each buyer
GIVEN = 10_000_000_000


@pytest.fixture(params=RELEASED)
def home(request, tmp_path) -> Path:
    return unpack_home(request.param, tmp_path)


async def test_home_of_a_released_version_continues_under_this_version(home):
    # an archive holds a file, even if the other tests run on another store
    async with open_service(home, **SETTINGS, store=None) as desk:
        facts = json.loads((home / "facts.json").read_text())

        async def as_offered(facts: dict[str, Any]) -> None:
            option = facts["open"]
            await desk.rest.confirm(facts["payments"]["open"], option["option"], option["outputs"])

        await goes_on(desk, facts, as_offered)
        wallet = facts["wallets"]["open"]
        await wait_until(lambda: desk.chain.balance(wallet), GIVEN - PRICE + 1)
        await wait_exact(desk)


async def test_settlements_through_the_former_contract_are_followed_beside_the_new(
    home, monkeypatch
):
    new = await deploy_another(home)

    def with_both(settings: Settings, treasury: EvmSigner) -> EvmChainSettings:
        changed = {"settler": new, "former_settlers": (DEVNET.settler,)}
        return build_chain(settings, treasury).model_copy(update=changed)

    monkeypatch.setattr(evm, "build_chain", with_both)
    async with open_service(home, **SETTINGS, store=None) as desk:
        facts = json.loads((home / "facts.json").read_text())

        async def through_the_new_one(facts: dict[str, Any]) -> None:
            payment_id, option = facts["payments"]["open"], facts["open"]
            with pytest.raises(ApiCallError, match="quote_expired"):
                await desk.rest.confirm(payment_id, option["option"], option["outputs"])
            wallet = EvmTestWallet()
            await desk.chain.fund(wallet.address)
            (again,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
            await desk.rest.confirm(payment_id, again["id"], wallet.execute_all(again))

        await goes_on(desk, facts, through_the_new_one)
        offer = await desk.offer()
        await desk.chain.fund(offer.wallet.address)
        await desk.confirm(offer)
        assert (await desk.wait_ended(offer.payment_id))["status"] == "succeeded"
        await desk.rest.refund(offer.payment_id)
        assert (await desk.wait_refunded(offer.payment_id))["status"] == "succeeded"
        for payment_id, headers, settler in (
            (facts["payments"]["done"], facts["headers"], DEVNET.settler),
            (facts["payments"]["confirmed"], facts["headers"], DEVNET.settler),
            (facts["payments"]["open"], facts["headers"], new),
            (offer.payment_id, desk.rest.merchant, new),
        ):
            path = f"/v1/payments/{payment_id}"
            ((tx_id,),) = desk.select("SELECT tx_id FROM payment WHERE id = ?", payment_id)
            result = await desk.chain.ask("eth_getTransactionReceipt", tx_id)
            assert settler in {log["address"] for log in result["logs"]}
            receipt = await desk.ask("GET", f"{path}/receipt", headers)
            assert receipt.status == 200
        await wait_exact(desk)


async def deploy_another(home: Path) -> str:
    """Deploy the settlement contract once more on a home's chain, and return its address."""
    clock = TestClock(START_S * 1_000_000)
    settings = EvmDevSettings(chain_id=DEVNET.chain_id, clock=clock)
    chain = await EvmDevChain.open(home / "evm.db", settings)
    try:
        rpc = JsonRpcClient(LocalTransport(chain.handle))
        nonce = int(await rpc.call("eth_getTransactionCount", DEVNET.faucet, "latest"), 16)
        code = load_artifact("PaySettler").init
        raw = sign_faucet_transaction(nonce, chainId=DEVNET.chain_id, data=code, gas=3_000_000)
        tx_hash = await rpc.call("eth_sendRawTransaction", "0x" + raw.hex())
        created = await rpc.call("eth_getTransactionReceipt", tx_hash)
        return str(created["contractAddress"]).lower()
    finally:
        await chain.close()


async def goes_on(
    desk: ServiceHarness, facts: dict[str, Any], pays: Callable[[dict[str, Any]], Awaitable[None]]
) -> None:
    """Bring everything in the home to its end; `pays` pays what is open."""
    ids, headers = facts["payments"], facts["headers"]

    async def detail(name: str) -> dict[str, Any]:
        path = f"/v1/payments/{ids[name]}"
        return await desk.rest.call("GET", path, headers)

    assert await desk.service.app.store.read(executors.list_pauses()) == {}
    # finished payments stay finished, and their receipts are unchanged
    assert (await detail("done"))["status"] == "succeeded"
    response = await desk.ask("GET", f"/v1/payments/{ids['done']}/receipt", headers)
    assert response.text == facts["receipt"]
    before = facts["refund"]
    (refund,) = (await detail("refunded"))["refunds"]
    assert {key: refund[key] for key in before} == before
    # payments in progress reach their end
    assert (await desk.wait_ended(ids["confirmed"]))["status"] == "succeeded"
    done = await desk.wait_refunded(ids["refunding"], headers)
    assert (done["refundId"], done["status"]) == (facts["refundAsked"]["refundId"], "succeeded")
    await pays(facts)
    assert (await desk.wait_ended(ids["open"]))["status"] == "succeeded"
    # and are refunded in parts
    unit = done["amount"]["unit"]
    part = {"paymentId": ids["open"], "amount": {"unit": unit, "value": "1"}}
    await desk.rest.call("POST", "/v1/refunds", headers, part)
    await desk.wait_refunded(ids["open"], headers)
    for name, more in {"refunding": 0, "confirmed": -PRICE}.items():
        await wait_until(lambda n=name: desk.chain.balance(facts["wallets"][n]), GIVEN + more)
