"""Test money is given in a step of its own: reading what accounts can pay moves nothing."""

from __future__ import annotations

import pytest
from florin_server.devnet.solana.faucet import GIFT_UNITS
from florin_server.rails.solana.settings import SolanaCoin

from tests.support.solana import ASSETS, SolanaWallet
from tests.support.solana_kit import TOKEN
from tests.support.solana_lab import PRICE, open_lab, split

USUAL = GIFT_UNITS * 10**6


@pytest.fixture
async def lab():
    async with open_lab(coin=SolanaCoin()) as opened:
        yield opened


@pytest.fixture
def buyer() -> SolanaWallet:
    return SolanaWallet()


async def test_reading_moves_nothing(lab, buyer):
    rail, key = lab.rail, buyer.key.pubkey()
    payer, coin = rail.payer(buyer.account), rail.native_asset
    prices = {coin: PRICE, **dict.fromkeys(ASSETS, PRICE)}
    places = [(payer, asset) for asset in prices]
    lab.between.asked.clear()
    for _ in range(2):
        assert await rail.offers.payable([payer], prices) == []
        await rail.offers.obstacle(rail.assets[ASSETS[0]], PRICE, split())
        await rail.problems()
        assert await rail.observer.holdings(places, 0) == dict.fromkeys(places, 0)
    assert "florin_faucet" not in lab.between.asked
    assert await lab.node.coin(key) == 0
    assert await lab.node.tokens(key, TOKEN) == 0


async def test_who_asks_for_options_and_has_nothing_is_given_what_is_usual(lab, buyer):
    payer = lab.rail.payer(buyer.account)
    prices = dict.fromkeys(ASSETS, PRICE)
    found = await lab.payable([payer], prices)
    assert {one.asset for one in found} == set(prices)
    assert await lab.node.tokens(buyer.key.pubkey(), TOKEN) == USUAL
    # nobody who can pay is given more
    lab.between.asked.clear()
    assert await lab.payable([payer], prices) == found
    assert "florin_faucet" not in lab.between.asked


async def test_a_cluster_without_a_faucet_gives_nothing(buyer):
    async with open_lab(faucet=False) as lab:
        assert lab.rail.faucet is None
        assert await lab.payable([lab.rail.payer(buyer.account)], {ASSETS[0]: PRICE}) == []
        assert "florin_faucet" not in lab.between.asked
