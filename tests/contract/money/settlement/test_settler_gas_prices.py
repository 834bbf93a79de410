"""Test gas prices that rise during payments, and gas that is charged in a token."""

from __future__ import annotations

import pytest
from florin_sandbox.devnet.evm.schedule import GasSchedule
from florin_server.money.ledger.store import ledger

from tests.support.chains import EmbeddedChains
from tests.support.contract_accounts import ContractAccount, make_contract_account
from tests.support.evm_harness import RELAYER, TOKEN, make_buyer
from tests.support.fee_token import SETTINGS, make_tempo_chains
from tests.support.gas_burners import (
    allow_account_creation,
    confirm_uncreated_account,
    count_broadcasts,
    get_budget_usage,
    get_refusal,
)
from tests.support.settlement_harness import SettlementHarness, open_settlement_harness


@pytest.fixture
def prices():
    """Return today's gas prices, which a test can raise."""
    return GasSchedule()


def raise_prices(prices: GasSchedule) -> None:
    """Raise prices to those planned for Ethereum's Glamsterdam upgrade."""
    prices.slot, prices.account, prices.floor = 97_920, 183_600, 64


async def funded_account(shop: SettlementHarness) -> ContractAccount:
    """Return an account with money that its factory has not created yet."""
    await allow_account_creation(shop)
    account = make_contract_account(make_buyer(7))
    await shop.lab.fund(account.address)
    return account


async def test_payment_that_ran_out_of_our_gas_settles_and_charges_no_budget(
    tmp_path, caplog, prices
):
    async with open_settlement_harness(tmp_path, evm=EmbeddedChains(prices)) as shop:
        await shop.lab.pause()
        await shop.lab.fund(make_buyer(7))
        payment = await shop.create_processing_payment(make_buyer(7))
        await shop.turn()
        raise_prices(prices)
        await shop.mine(4)
        item = await shop.get_item(payment)
        used = await get_budget_usage(shop)
        assert "no budget is charged" in caplog.text
        assert (item.failures, used.total_failed_gas, set(used.payers)) == (0, 0, set())
        shop.lab.clock.advance(5)
        await shop.turn(2)
        assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_account_is_created_and_pays_at_raised_prices(tmp_path, prices):
    raise_prices(prices)
    async with open_settlement_harness(tmp_path, evm=EmbeddedChains(prices)) as shop:
        account = await funded_account(shop)
        payment = await confirm_uncreated_account(shop, account)
        assert (await shop.run_to_end(payment)).status == "succeeded"
        used = await get_budget_usage(shop)
        # the creation of accounts has a separate budget
        assert (used.total_failed_gas, set(used.payers), used.total_opening_gas > 0) == (
            0,
            set(),
            True,
        )


async def test_payment_by_a_new_account_above_the_ceiling_is_refused_before_anything_is_sent(
    tmp_path, prices
):
    async with open_settlement_harness(tmp_path, evm=EmbeddedChains(prices)) as shop:
        account = await funded_account(shop)
        raise_prices(prices)
        # the factory still creates the account, but a payment takes more than payment_gas_max
        prices.slot, prices.account = 4 * prices.slot, 4 * prices.account
        await shop.lab.rail.start()
        error = await get_refusal(confirm_uncreated_account(shop, account))
        assert (error.details["reason"], count_broadcasts(shop)) == ("gas_limit", 0)
        used = await get_budget_usage(shop)
        assert (used.total_failed_gas, used.total_opening_gas, set(used.payers)) == (0, 0, set())


async def test_account_creation_that_ran_out_of_our_gas_settles_and_charges_no_budget(
    tmp_path, prices
):
    async with open_settlement_harness(tmp_path, evm=EmbeddedChains(prices)) as shop:
        account = await funded_account(shop)
        await shop.lab.pause()
        payment = await confirm_uncreated_account(shop, account)
        await shop.turn()
        raise_prices(prices)
        await shop.mine(4)
        item = await shop.get_item(payment)
        used = await get_budget_usage(shop)
        assert (item.failures, used.total_failed_gas, used.total_opening_gas, set(used.payers)) == (
            0,
            0,
            0,
            set(),
        )
        shop.lab.clock.advance(5)
        await shop.turn(2)
        assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_payment_on_a_chain_without_a_coin_succeeds_and_books_its_fee_in_the_token(tmp_path):
    async with open_settlement_harness(tmp_path, evm=make_tempo_chains(), **SETTINGS) as shop:
        await shop.lab.fund(make_buyer(7))
        payment = await shop.create_processing_payment(make_buyer(7))
        began = await shop.lab.balance(RELAYER.address)
        await shop.turn()
        await shop.mine(4)
        assert (await shop.run_to_end(payment)).status == "succeeded"
        spent = began - await shop.lab.balance(RELAYER.address)
        assert await shop.store.read(ledger.get_balance("expense:gas", TOKEN)) == spent > 0
