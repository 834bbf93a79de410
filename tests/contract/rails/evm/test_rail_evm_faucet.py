"""Test that giving test money is a separate step: reading what accounts can pay moves nothing."""

from __future__ import annotations

import asyncio

import pytest
from florin_sandbox.devnet.evm.faucet import GIFT_TOKENS, GIFT_WEI
from florin_server.rails.evm.settings import EvmCoinSettings
from florin_server.rails.types import PayableAsset, Split

from tests.support.evm_harness import (
    CHAIN,
    EURO,
    FEES,
    MERCHANT,
    PRICE,
    TOKEN,
    make_asset,
    make_buyer,
    make_euro_asset,
    open_lab,
    to_account,
)

COIN = f"{CHAIN}/slip44:60"
BUYER = make_buyer(7)
PAYER = to_account(BUYER)
PRICES = {TOKEN: PRICE, EURO: PRICE, COIN: PRICE}
USUAL = GIFT_TOKENS * 10**6


@pytest.fixture
async def lab():
    coin = EvmCoinSettings(name="Test Ether", symbol="tETH")
    opened = await open_lab(assets=(make_asset(), make_euro_asset()), coin=coin)
    yield opened
    await opened.rail.close()
    await opened.chain.close()


async def coin_of(lab) -> int:
    return int(await lab.control.call("eth_getBalance", BUYER.address, "latest"), 16)


async def test_reading_moves_nothing(lab):
    await lab.mine(lab.rail.confirmations)
    rail, before = lab.rail, await lab.control.call("eth_blockNumber")
    places = [(PAYER, TOKEN), (PAYER, COIN)]
    split = Split(to_account(MERCHANT), to_account(FEES), 1, settled=True)
    for _ in range(2):
        assert await rail.offers.list_payable([PAYER], PRICES) == []
        assert await rail.offers.list_payable([PAYER], PRICES, [PAYER]) == []
        assert await rail.offers.check_receivable(rail.assets[TOKEN], PRICE, split) is None
        assert await rail.list_problems() == ()
        assert await rail.observer.read_holdings(places, 0) == dict.fromkeys(places, 0)
    assert "florin_faucet" not in lab.node.methods
    assert await lab.control.call("eth_blockNumber") == before
    assert await lab.balance(BUYER.address) == 0
    assert await coin_of(lab) == 0


async def test_account_without_funds_gets_the_usual_gift(lab):
    result = await lab.payable([PAYER], PRICES)
    assert {item.asset for item in result} == set(PRICES)
    assert await lab.balance(BUYER.address) == USUAL
    assert await coin_of(lab) == GIFT_WEI
    # accounts that can pay get no more
    lab.node.methods.clear()
    assert await lab.payable([PAYER], PRICES) == result
    assert "florin_faucet" not in lab.node.methods


async def test_account_that_cannot_pay_is_topped_up_to_the_price(lab):
    dear = {TOKEN: 3 * USUAL, COIN: 2 * GIFT_WEI}
    assert {item.asset for item in await lab.payable([PAYER], dear)} == set(dear)
    assert await lab.balance(BUYER.address) == 3 * USUAL
    # the coin also pays for gas
    assert await coin_of(lab) == 4 * GIFT_WEI


async def test_balance_read_before_a_gift_is_not_reused_after_it(lab):
    early = asyncio.create_task(lab.rail.offers.list_payable([PAYER], {TOKEN: PRICE}))
    await asyncio.sleep(0)
    await lab.rail.faucet.give_usual([PAYER], {TOKEN: PRICE})
    assert await lab.rail.offers.list_payable([PAYER], {TOKEN: PRICE}) == [
        PayableAsset(PAYER, TOKEN)
    ]
    await early


async def test_a_chain_without_a_faucet_gives_nothing():
    lab = await open_lab(faucet=False)
    assert lab.rail.faucet is None
    assert await lab.payable([PAYER], {TOKEN: PRICE}) == []
    assert "florin_faucet" not in lab.node.methods
    await lab.rail.close()
    await lab.chain.close()
