"""Test money is given in a step of its own: reading what accounts can pay moves nothing."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.devnet.evm.faucet import GIFT_TOKENS, GIFT_WEI
from florin_server.rails.evm.settings import EvmCoin
from florin_server.rails.types import Payable, Split

from tests.support.evm_lab import (
    CHAIN,
    EURO,
    FEES,
    MERCHANT,
    PRICE,
    TOKEN,
    account_of,
    asset,
    buyer,
    euro,
    open_lab,
)

COIN = f"{CHAIN}/slip44:60"
BUYER = buyer(7)
PAYER = account_of(BUYER)
PRICES = {TOKEN: PRICE, EURO: PRICE, COIN: PRICE}
USUAL = GIFT_TOKENS * 10**6


@pytest.fixture
async def lab():
    coin = EvmCoin(name="Test Ether", symbol="tETH")
    opened = await open_lab(assets=(asset(), euro()), coin=coin)
    yield opened
    await opened.rail.close()
    await opened.chain.close()


async def coin_of(lab) -> int:
    return int(await lab.control.call("eth_getBalance", BUYER.address, "latest"), 16)


async def test_reading_moves_nothing(lab):
    await lab.mine(lab.rail.confirmations)
    rail, before = lab.rail, await lab.control.call("eth_blockNumber")
    places = [(PAYER, TOKEN), (PAYER, COIN)]
    split = Split(account_of(MERCHANT), account_of(FEES), 1, settled=True)
    for _ in range(2):
        assert await rail.offers.payable([PAYER], PRICES) == []
        assert await rail.offers.payable([PAYER], PRICES, [PAYER]) == []
        assert await rail.offers.obstacle(rail.assets[TOKEN], PRICE, split) is None
        assert await rail.problems() == ()
        assert await rail.observer.holdings(places, 0) == dict.fromkeys(places, 0)
    assert "florin_faucet" not in lab.node.asked
    assert await lab.control.call("eth_blockNumber") == before
    assert await lab.balance(BUYER.address) == 0
    assert await coin_of(lab) == 0


async def test_who_asks_for_options_and_has_nothing_is_given_what_is_usual(lab):
    found = await lab.payable([PAYER], PRICES)
    assert {one.asset for one in found} == set(PRICES)
    assert await lab.balance(BUYER.address) == USUAL
    assert await coin_of(lab) == GIFT_WEI
    # nobody who can pay is given more
    lab.node.asked.clear()
    assert await lab.payable([PAYER], PRICES) == found
    assert "florin_faucet" not in lab.node.asked


async def test_who_could_not_pay_with_what_is_usual_is_filled_up_to_the_price(lab):
    dear = {TOKEN: 3 * USUAL, COIN: 2 * GIFT_WEI}
    assert {one.asset for one in await lab.payable([PAYER], dear)} == set(dear)
    assert await lab.balance(BUYER.address) == 3 * USUAL
    # gas is paid with it too
    assert await coin_of(lab) == 4 * GIFT_WEI


async def test_what_was_read_before_a_gift_is_not_told_after_it(lab):
    early = asyncio.create_task(lab.rail.offers.payable([PAYER], {TOKEN: PRICE}))
    await asyncio.sleep(0)
    await lab.rail.faucet.give([PAYER], {TOKEN: PRICE})
    assert await lab.rail.offers.payable([PAYER], {TOKEN: PRICE}) == [Payable(PAYER, TOKEN)]
    await early


async def test_a_chain_without_a_faucet_gives_nothing():
    lab = await open_lab(faucet=False)
    assert lab.rail.faucet is None
    assert await lab.payable([PAYER], {TOKEN: PRICE}) == []
    assert "florin_faucet" not in lab.node.asked
    await lab.rail.close()
    await lab.chain.close()
