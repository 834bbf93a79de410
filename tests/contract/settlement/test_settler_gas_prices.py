"""Gas prices that rise while payments are under way, and gas that is charged in a token."""

from __future__ import annotations

import pytest
from florin_server.devnet.evm.schedule import GasSchedule
from florin_server.store.ledger import ledger

from tests.support.chains import OwnChain
from tests.support.evm_lab import RELAYER, TOKEN, buyer
from tests.support.fee_token import SETTINGS, tempo
from tests.support.gas_lab import broadcasts, creating, lost, refusal, unborn
from tests.support.settler_lab import Works, works
from tests.support.smart import Smart, smart


@pytest.fixture
def prices():
    """Today's prices, which a test may raise."""
    return GasSchedule()


def raise_prices(prices: GasSchedule) -> None:
    """Raise prices to those planned for Ethereum's Glamsterdam upgrade."""
    prices.slot, prices.account, prices.floor = 97_920, 183_600, 64


async def funded_account(shop: Works) -> Smart:
    """An account with money that its factory has not created yet."""
    await creating(shop)
    account = smart(buyer(7))
    await shop.lab.fund(account.address)
    return account


async def test_payment_that_ran_out_of_our_gas_settles_and_charges_no_budget(
    tmp_path, caplog, prices
):
    async with works(tmp_path, evm=OwnChain(prices)) as shop:
        await shop.lab.pause()
        await shop.lab.fund(buyer(7))
        payment = await shop.accepted(buyer(7))
        await shop.turn()
        raise_prices(prices)
        await shop.mine(4)
        item = await shop.item(payment)
        used = await lost(shop)
        assert "no budget is charged" in caplog.text
        assert (item.failures, used.failed, set(used.payers)) == (0, 0, set())
        shop.lab.clock.advance(5)
        await shop.turn(2)
        assert (await shop.end(payment)).status == "succeeded"


async def test_account_is_created_and_pays_at_raised_prices(tmp_path, prices):
    raise_prices(prices)
    async with works(tmp_path, evm=OwnChain(prices)) as shop:
        account = await funded_account(shop)
        payment = await unborn(shop, account)
        assert (await shop.end(payment)).status == "succeeded"
        used = await lost(shop)
        # what creating accounts costs has a budget of its own
        assert (used.failed, set(used.payers), used.opened > 0) == (0, set(), True)


async def test_payment_by_a_new_account_above_the_ceiling_is_refused_before_anything_is_sent(
    tmp_path, prices
):
    async with works(tmp_path, evm=OwnChain(prices)) as shop:
        account = await funded_account(shop)
        raise_prices(prices)
        # the factory still creates the account, but a payment takes more than payment_gas_max
        prices.slot, prices.account = 4 * prices.slot, 4 * prices.account
        await shop.lab.rail.start()
        error = await refusal(unborn(shop, account))
        assert (error.details["reason"], broadcasts(shop)) == ("gas_limit", 0)
        used = await lost(shop)
        assert (used.failed, used.opened, set(used.payers)) == (0, 0, set())


async def test_account_creation_that_ran_out_of_our_gas_settles_and_charges_no_budget(
    tmp_path, prices
):
    async with works(tmp_path, evm=OwnChain(prices)) as shop:
        account = await funded_account(shop)
        await shop.lab.pause()
        payment = await unborn(shop, account)
        await shop.turn()
        raise_prices(prices)
        await shop.mine(4)
        item = await shop.item(payment)
        used = await lost(shop)
        assert (item.failures, used.failed, used.opened, set(used.payers)) == (0, 0, 0, set())
        shop.lab.clock.advance(5)
        await shop.turn(2)
        assert (await shop.end(payment)).status == "succeeded"


async def test_payment_on_a_chain_without_a_coin_succeeds_and_books_its_fee_in_the_token(tmp_path):
    async with works(tmp_path, evm=tempo(), **SETTINGS) as shop:
        await shop.lab.fund(buyer(7))
        payment = await shop.accepted(buyer(7))
        began = await shop.lab.balance(RELAYER.address)
        await shop.turn()
        await shop.mine(4)
        assert (await shop.end(payment)).status == "succeeded"
        spent = began - await shop.lab.balance(RELAYER.address)
        assert await shop.store.read(ledger.balance("expense:gas", TOKEN)) == spent > 0
