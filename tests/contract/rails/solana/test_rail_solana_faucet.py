"""Test that giving test money is a separate step: reading what accounts can pay moves nothing."""

from __future__ import annotations

import pytest
from florin_sandbox.devnet.solana.faucet import GIFT_UNITS
from florin_server.rails.solana.settings import SolanaCoinSettings

from tests.support.solana import ASSETS, SolanaTestWallet
from tests.support.solana_devnet import TOKEN
from tests.support.solana_rail_harness import PRICE, make_split, open_lab

USUAL = GIFT_UNITS * 10**6


@pytest.fixture
async def lab():
    async with open_lab(coin=SolanaCoinSettings()) as opened:
        yield opened


@pytest.fixture
def buyer() -> SolanaTestWallet:
    return SolanaTestWallet()


async def test_reading_moves_nothing(lab, buyer):
    rail, key = lab.rail, buyer.key.pubkey()
    payer, coin = rail.find_payer(buyer.account), rail.native_asset
    prices = {coin: PRICE, **dict.fromkeys(ASSETS, PRICE)}
    places = [(payer, asset) for asset in prices]
    lab.transport.methods.clear()
    for _ in range(2):
        assert await rail.offers.list_payable([payer], prices) == []
        await rail.offers.check_receivable(rail.assets[ASSETS[0]], PRICE, make_split())
        await rail.list_problems()
        assert await rail.observer.read_holdings(places, 0) == dict.fromkeys(places, 0)
    assert "florin_faucet" not in lab.transport.methods
    assert await lab.node.coin(key) == 0
    assert await lab.node.tokens(key, TOKEN) == 0


async def test_account_without_funds_gets_the_usual_gift(lab, buyer):
    payer = lab.rail.find_payer(buyer.account)
    prices = dict.fromkeys(ASSETS, PRICE)
    result = await lab.payable([payer], prices)
    assert {item.asset for item in result} == set(prices)
    assert await lab.node.tokens(buyer.key.pubkey(), TOKEN) == USUAL
    # accounts that can pay get no more
    lab.transport.methods.clear()
    assert await lab.payable([payer], prices) == result
    assert "florin_faucet" not in lab.transport.methods


async def test_a_cluster_without_a_faucet_gives_nothing(buyer):
    async with open_lab(faucet=False) as lab:
        assert lab.rail.faucet is None
        assert await lab.payable([lab.rail.find_payer(buyer.account)], {ASSETS[0]: PRICE}) == []
        assert "florin_faucet" not in lab.transport.methods
