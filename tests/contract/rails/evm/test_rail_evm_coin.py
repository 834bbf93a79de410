"""Test payments in the native coin of an EVM chain."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.rails.evm.paying.terms import EvmOptionTerms
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.settings import EvmCoinSettings
from florin_server.rails.evm.settler import IS_PAID
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.pricing.prices import PriceQuote, PriceRate
from florin_server.rails.types import PayableAsset, Split

from tests.support.evm_harness import (
    CHAIN,
    EURO,
    FEES,
    MERCHANT,
    PRICE,
    RELAYER,
    TOKEN,
    EvmChainHarness,
    make_asset,
    make_buyer,
    make_chain_settings,
    make_euro_asset,
    make_payment,
    make_reply,
    open_lab,
    to_account,
)

pytestmark = pytest.mark.both_chains
WALLET = make_buyer(7)
PAYER = to_account(WALLET)
COIN = EvmCoinSettings(name="Test Ether", symbol="tETH")
ETHER = f"{CHAIN}/slip44:60"
MUTE = "00"
QUOTE = PriceQuote(PriceRate("2500", "settings", 5), 1_800_000_300)


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm, assets=(make_asset(), make_euro_asset()), coin=COIN)
    await lab.fund(WALLET)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def refusal(lab: EvmChainHarness, option: Any, issued: Any, *outputs: str) -> str:
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(option, (issued,), outputs)
    assert caught.value.code is ErrorCode.INVALID_PARAMS
    return caught.value.details["reason"]


def coin_offer(
    lab: EvmChainHarness, means: PayableAsset, quote: PriceQuote = QUOTE, number: int = 1
) -> Any:
    split = Split(to_account(MERCHANT), to_account(FEES), 15_000, settled=True)
    coin, now_us = lab.rail.assets[ETHER], lab.clock.now_us()
    payment = make_payment(number)
    return lab.rail.offers.build_option(
        OptionOffer(payment, PAYER, means, coin, PRICE, split, now_us, quote)
    )


async def coin_held(lab: EvmChainHarness, address: str) -> int:
    return int(await lab.control.call("eth_getBalance", address, "latest"), 16)


async def test_the_coin_is_an_asset_of_its_chain(lab):
    assert await lab.rail.list_problems() == ()
    coin = lab.rail.assets[ETHER]
    assert (coin.symbol, coin.decimals, coin.peg, coin.method) == ("tETH", 18, None, "direct")
    assert lab.rail.native_asset == ETHER
    plain = EvmRail(make_chain_settings(), RELAYER, lab.node)
    await plain.start()
    assert ETHER not in plain.assets


async def test_settlement_contract_without_coin_support_is_reported(lab):
    def older(params, answer):
        if params[0]["data"].startswith("0x" + IS_PAID.hex()):
            return {"id": answer["id"], "error": {"code": 3, "message": "execution reverted"}}
        return answer

    lab.node.changes["eth_call"] = older
    (problem,) = await lab.rail.list_problems()
    assert problem.endswith("does not accept tETH")
    assert set(lab.rail.assets) == {TOKEN, EURO}


async def test_account_with_more_coin_than_the_price_can_pay(lab):
    held = await coin_held(lab, WALLET.address)
    lab.node.lost_methods = frozenset({"florin_faucet"})
    assert await lab.payable([PAYER], {ETHER: held - 1}) == [PayableAsset(PAYER, ETHER)]
    assert await lab.payable([PAYER], {ETHER: held}) == []
    await lab.delegate(WALLET, MUTE)
    assert await lab.payable([PAYER], {ETHER: PRICE}) == [PayableAsset(PAYER, ETHER)]


async def test_the_faucet_gives_coin_up_to_the_price(lab):
    dear = {ETHER: 30 * 10**18, TOKEN: 10**14}
    result = await lab.payable([PAYER], dear)
    assert {means.asset for means in result} == {TOKEN, ETHER}


async def test_coin_option_states_its_single_call_in_the_build_data(lab):
    option = coin_offer(lab, PayableAsset(PAYER, ETHER))
    (build,) = option.actions
    issued = await lab.rail.offers.resolve_build(option, (), lab.clock.now_us())
    assert issued is not None
    (action,) = issued.actions
    result = json.loads(bytes.fromhex(build.data))
    assert result == {
        "chain_id": CHAIN,
        "method": "eth_sendTransaction",
        "params": json.loads(action.params_json),
    }
    (call,) = result["params"]
    assert set(call) == {"from", "to", "value", "data"}
    assert (call["to"], call["value"]) == (DEVNET.settler, hex(PRICE))
    terms = EvmOptionTerms.from_option(option)
    assert terms.route.ref.hex() in call["data"]
    assert f"{terms.route.valid_before:064x}" in call["data"]


async def test_a_quote_is_part_of_its_option(lab):
    option = coin_offer(lab, PayableAsset(PAYER, ETHER))
    assert option.expires_at == QUOTE.expires_at
    assert option.terms["quote"] == {"price": "2500", "source": "settings", "at_us": 5}
    # the contract itself refuses a later transaction
    assert EvmOptionTerms.from_option(option).route.valid_before == QUOTE.expires_at
    same = coin_offer(lab, PayableAsset(PAYER, ETHER), PriceQuote(QUOTE.rate, QUOTE.expires_at))
    later = coin_offer(
        lab, PayableAsset(PAYER, ETHER), PriceQuote(QUOTE.rate, QUOTE.expires_at + 1)
    )
    assert (same.id, later.id == option.id) == (option.id, False)


async def test_coin_that_is_sent_moves_and_is_proof(lab):
    option = coin_offer(lab, PayableAsset(PAYER, ETHER))
    issued = await lab.rail.offers.resolve_build(option, (), lab.clock.now_us())
    assert issued is not None
    before = await coin_held(lab, FEES)
    output = await lab.perform(WALLET, issued.actions[0])
    await lab.rail.verifier.verify(option, (issued,), [output])
    (paid,) = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(option)], issued.head
    )
    assert lab.rail.terms.is_proven(option, paid)
    assert await coin_held(lab, MERCHANT) == PRICE - 15_000
    assert await coin_held(lab, FEES) == before + 15_000


@pytest.mark.parametrize("suffix", ["00", "62617365617070070080218021802180218021802180218021"])
async def test_call_with_the_suffix_of_an_app_pays_and_is_confirmed(lab, suffix):
    option = coin_offer(lab, PayableAsset(PAYER, ETHER))
    issued = await lab.rail.offers.resolve_build(option, (), lab.clock.now_us())
    assert issued is not None
    (action,) = issued.actions
    (call,) = json.loads(action.params_json)
    call["data"] += suffix
    output = await lab.perform(WALLET, replace(action, params_json=json.dumps([call])))
    await lab.rail.verifier.verify(option, (issued,), [output])
    (paid,) = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(option)], issued.head
    )
    assert lab.rail.terms.is_proven(option, paid)
    lab.node.changes["eth_getTransactionReceipt"] = make_reply(None)
    lab.node.changes["eth_call"] = make_reply("0x" + "00" * 32)
    await lab.rail.verifier.verify(option, (issued,), [output])


@pytest.mark.parametrize("field", ["value", "to", "data", "from"])
async def test_another_transaction_is_refused_before_it_is_mined(lab, field):
    option = coin_offer(lab, PayableAsset(PAYER, ETHER))
    issued = await lab.rail.offers.resolve_build(option, (), lab.clock.now_us())
    assert issued is not None
    output = await lab.perform(WALLET, issued.actions[0])

    def other(params, answer):
        sent = dict(answer["result"])
        name = "input" if field == "data" else field
        sent[name] = {"value": "0x1", "data": "0x12"}.get(field, MERCHANT)
        return answer | {"result": sent}

    await lab.rail.verifier.verify(option, (issued,), [output])
    lab.node.changes["eth_getTransactionByHash"] = other
    lab.node.changes["eth_getTransactionReceipt"] = make_reply(None)
    # a payment that the contract reports as paid is not refused
    await lab.rail.verifier.verify(option, (issued,), [output])
    lab.node.changes["eth_call"] = make_reply("0x" + "00" * 32)
    assert await refusal(lab, option, issued, output) == "transaction_mismatch"
