"""Test chains where gas costs more: payments get the measured gas, up to the ceiling."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.evm.schedule import GasSchedule
from florin_server.domain.errors import ApiError
from florin_server.rails.evm.sending.fees import KEY_GAS, WALLET_GAS
from florin_server.rails.evm.settings import EvmCoinSettings
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.pricing.prices import PriceQuote, PriceRate
from florin_server.rails.types import PayableAsset, Split

from tests.support.chains import EmbeddedChains
from tests.support.evm_harness import (
    ACCEPTS_ALL,
    CHAIN,
    FEES,
    MERCHANT,
    PRICE,
    START_S,
    make_buyer,
    make_payment,
    make_settlement_item,
    open_lab,
    sign_option,
    to_account,
)

RAISED = (97_920, 183_600, 64)


async def close(lab):
    await lab.rail.close()
    await lab.chain.close()


@pytest.fixture
async def lab():
    lab = await open_lab(evm=EmbeddedChains(GasSchedule(*RAISED)))
    yield lab
    await close(lab)


async def test_payment_settles_at_raised_gas_prices(lab):
    item = await lab.create_verified_item(1, fee=15_000)
    assert await lab.rail.relay.simulate([item]) == [True]
    await lab.settle(item)
    assert await lab.balance(MERCHANT) == PRICE - 15_000
    assert await lab.balance(FEES) == 15_000
    assert lab.rail.relay.get_gas_share(item).gas > 2 * KEY_GAS
    assert await lab.rail.list_problems() == ()


async def test_account_with_code_settles_at_raised_gas_prices(lab):
    wallet = make_buyer(5)
    await lab.fund(wallet)
    await lab.delegate(wallet, ACCEPTS_ALL)
    payment = make_payment(2)
    option = lab.offer(wallet, payment)
    item = make_settlement_item(payment, option, sign_option(wallet, option))
    await lab.rail.verifier.verify(option, (), item.confirmation.outputs)
    (item,) = await lab.rail.relay.refresh_payers([item])
    await lab.settle(item)
    assert await lab.balance(MERCHANT) == PRICE


async def test_prices_that_rise_between_two_payments_are_learned_by_the_next(evm_prices):
    lab, prices = evm_prices
    first = await lab.create_verified_item(1)
    usual = lab.rail.relay.get_gas_share(first)
    prices.slot, prices.account, prices.floor = RAISED
    lab.rail.relay.record_new_block()
    assert await lab.rail.relay.simulate([first]) == [True]
    assert await lab.rail.relay.is_short_of_gas(first, usual)
    assert not await lab.rail.relay.is_short_of_gas(first, lab.rail.relay.get_gas_share(first))
    prices.slot = 3 * RAISED[0]
    lab.rail.relay.record_new_block()
    await lab.settle(await lab.create_verified_item(2))
    assert await lab.balance(MERCHANT) == PRICE


@pytest.fixture
async def evm_prices():
    prices = GasSchedule()
    lab = await open_lab(evm=EmbeddedChains(prices))
    yield lab, prices
    await close(lab)


async def test_payments_get_the_usual_gas_at_usual_prices(evm_prices):
    lab, _ = evm_prices
    await lab.create_verified_item(1)
    shares = lab.rail.gas_shares
    token = DEVNET.token.address
    assert (
        shares.get_payment_gas(token, by_key=True),
        shares.get_payment_gas(token, by_key=False),
    ) == (
        KEY_GAS,
        WALLET_GAS,
    )


async def test_payment_above_the_ceiling_is_refused_as_gas_limit(evm_prices):
    lab, prices = evm_prices
    wallet = make_buyer(1001)
    await lab.fund(wallet)
    prices.slot = 400_000
    lab.rail.relay.record_new_block()
    option = lab.offer(wallet)
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(option, (), (sign_option(wallet, option),))
    assert caught.value.details == {"reason": "gas_limit"}
    (problem,) = await lab.rail.list_problems()
    assert "`payment_gas_max`" in problem


async def test_account_that_burns_gas_raises_nothing(evm_prices):
    lab, _ = evm_prices
    wallet = make_buyer(6)
    await lab.fund(wallet)
    # 12,000 rounds of 26 gas: more than an account is allowed, and less than the ceiling
    await lab.delegate(wallet, "612ee05b6001900380600357" + ACCEPTS_ALL)
    option = lab.offer(wallet)
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(option, (), (sign_option(wallet, option),))
    assert caught.value.details == {"reason": "gas_limit"}
    shares = lab.rail.gas_shares
    assert shares.gas_by_token == {}
    assert shares.surplus_max == 0


async def test_coin_payment_to_a_new_account_is_proven_at_raised_gas_prices():
    coin = EvmCoinSettings(name="Test Ether", symbol="tETH")
    lab = await open_lab(evm=EmbeddedChains(GasSchedule(*RAISED)), coin=coin)
    wallet, asset = make_buyer(7), f"{CHAIN}/slip44:60"
    await lab.send(to=wallet.address, value=10**18)
    payer = to_account(wallet)
    split = Split(to_account(MERCHANT), None, 0, settled=True)
    now_us = lab.clock.now_us()
    option = lab.rail.offers.build_option(
        OptionOffer(
            make_payment(3),
            payer,
            PayableAsset(payer, asset),
            lab.rail.assets[asset],
            PRICE,
            split,
            now_us,
            PriceQuote(PriceRate("2500", "settings", 5), START_S + 900),
        )
    )
    issued = await lab.rail.offers.resolve_build(option, (), now_us)
    (action,) = issued.actions
    output = await lab.perform(wallet, action)
    await lab.rail.verifier.verify(option, (issued,), (output,))
    (paid,) = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(option)], 0
    )
    assert lab.rail.terms.is_proven(option, paid)
    await close(lab)


async def test_token_that_burns_all_gas_gets_no_more_and_is_reported(evm_prices):
    lab, _ = evm_prices
    item = await lab.create_verified_item(1)
    form = lab.rail.relay._to_item(item)  # noqa: SLF001
    token = await lab.deploy("5b600056")
    burning = replace(form, arguments=replace(form.arguments, token=token))
    learner = lab.rail._learner  # noqa: SLF001
    assert not await learner.learn_gas([burning])
    assert lab.rail.gas_shares.get_payment_gas(token, by_key=True) == KEY_GAS
    assert await learner.is_above_ceiling(burning)
    (problem,) = await lab.rail.list_problems()
    assert token in problem


async def test_token_that_needs_more_gets_it_from_a_plain_keys_payment_alone(evm_prices):
    lab, _ = evm_prices
    item = await lab.create_verified_item(1)
    lab.rail.gas_shares.record_payment_gas(DEVNET.token.address, 250_000)
    assert lab.rail.relay.get_gas_share(item).gas > 250_000
    # transactions with less than today's gas got too little; the ceiling bounds the increase
    lab.rail.gas_shares.record_payment_gas(DEVNET.token.address, 10**9)
    assert lab.rail.gas_shares.get_payment_gas(DEVNET.token.address, by_key=True) == 10**6
