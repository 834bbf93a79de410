"""Test the gas budgets per hour of payers, apps and chains, and which payments wait for them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.features.monitoring.service import system
from florin_server.money.payments.service.confirm import confirm
from florin_server.money.settlement.store import gas

from tests.support.contract_accounts import make_account_by_factory, make_contract_account
from tests.support.evm_harness import make_buyer, to_account
from tests.support.gas_burners import (
    EVIL,
    HONEST,
    ONE,
    ONE_MAX,
    OTHER,
    advance_time,
    allow_account_creation,
    burn_gas,
    confirm_offer,
    confirm_payment,
    confirm_uncreated_account,
    count_broadcasts,
    get_budget_usage,
    get_refusal,
    make_gas_burners,
    make_offer,
    make_wallet_app,
    send_first,
    set_budgets,
)
from tests.support.hostile_accounts import (
    make_burns_when_rich,
)
from tests.support.settlement_harness import BUYER, SettlementHarness, open_settlement_harness


@pytest.fixture
async def shop(tmp_path) -> AsyncIterator[SettlementHarness]:
    async with open_settlement_harness(tmp_path) as running:
        yield running


# budgets


async def test_a_payer_that_lost_too_much_waits_for_the_next_hour(shop):
    await make_gas_burners(shop, EVIL)
    set_budgets(shop, payer=ONE)
    third = await make_offer(shop, to_account(EVIL))
    first = await confirm_payment(shop, EVIL)
    shop.lab.clock.advance(1)
    second = await confirm_payment(shop, EVIL)
    await shop.turn()
    # if both fail, the second would exceed the budget
    (sent,) = await shop.transactions()
    assert sent.item_ids == (first.id,)
    await burn_gas(shop, EVIL)
    await advance_time(shop, 61)
    assert count_broadcasts(shop) == 1
    assert shop.settler.health().paused_payments == 2
    error = await get_refusal(confirm_offer(shop, EVIL, third, BUYER))
    assert (error.http_status, error.details["reason"]) == (503, "payer_paused")
    assert (await shop.get_payment(third[0])).status == "requires_action"
    assert 0 < (error.retry_after_s or 0) <= 3600
    # other payers are unaffected
    assert (
        await shop.run_to_end(await shop.create_processing_payment(HONEST))
    ).status == "succeeded"
    shop.lab.clock.advance(3600)
    await shop.turn(2)
    assert shop.settler.health().paused_payments == 0
    for payment in (first, second):
        await shop.mine()
        await advance_time(shop, 5)
        assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_an_app_that_lost_too_much_pauses_its_own_contract_accounts(shop, caplog):
    await make_gas_burners(shop, EVIL, OTHER)
    set_budgets(shop, app=ONE)
    bad, good = make_wallet_app("bad"), make_wallet_app("good")
    offer = await make_offer(shop, to_account(OTHER), bad)
    await confirm_payment(shop, EVIL, bad)
    await burn_gas(shop, EVIL)
    error = await get_refusal(confirm_offer(shop, OTHER, offer, bad))
    assert (error.http_status, error.details["reason"]) == (503, "contract_accounts_paused")
    assert "of bad for failed gas is exhausted" in shop.settler.health().problem
    _, option = await make_offer(shop, to_account(OTHER), bad)
    assert option.method == "direct"
    paid = [await confirm_payment(shop, OTHER, good), await confirm_payment(shop, HONEST, bad)]
    assert [(await shop.run_to_end(payment)).status for payment in paid] == ["succeeded"] * 2
    result = [line for line in caplog.messages if "of bad for failed gas is exhausted" in line]
    await advance_time(shop, 100)
    assert len(result) == 1


async def test_exceeded_chain_budget_pauses_only_contract_accounts(shop):
    await make_gas_burners(shop, EVIL, OTHER)
    set_budgets(shop, chain=ONE)
    good = make_wallet_app("good")
    offer = await make_offer(shop, to_account(OTHER), good)
    waiting = await confirm_payment(shop, EVIL)
    await burn_gas(shop, EVIL)
    await advance_time(shop, 61)
    error = await get_refusal(confirm_offer(shop, OTHER, offer, good))
    assert (error.http_status, error.details["reason"]) == (503, "contract_accounts_paused")
    # a transaction of the account's own is offered instead
    _, option = await make_offer(shop, to_account(OTHER))
    assert option.method == "direct"
    _, option = await make_offer(shop, to_account(HONEST))
    assert option.method == "eip3009"
    assert (
        await shop.run_to_end(await shop.create_processing_payment(HONEST))
    ).status == "succeeded"
    assert await shop.transactions() == []
    (chain,) = (await system.get_status(shop.app)).chains
    assert (
        chain.gas.failed_gas >= ONE,
        chain.gas.paused_payments,
        chain.gas.abandoned_payments,
    ) == (True, 1, 0)
    assert "payments of accounts with code are paused until 09:00 UTC" in chain.problem
    await shop.restart()
    set_budgets(shop, chain=ONE)
    await get_refusal(confirm_offer(shop, OTHER, offer, good))
    shop.lab.clock.advance(3600)
    await shop.turn(2)
    later = await confirm_offer(shop, OTHER, offer, good)
    for payment in (waiting, later):
        # sent one after the other, they fit into the budget
        await shop.mine(3)
        await advance_time(shop, 5)
        assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_no_more_is_on_its_way_than_a_budget_covers(shop):
    """Accounts that fail together lose no more than accounts that fail one after the other."""
    crowd = [make_buyer(400 + number) for number in range(8)]
    await make_gas_burners(shop, *crowd)
    set_budgets(shop, chain=4 * ONE_MAX)
    for wallet in crowd:
        await confirm_payment(shop, wallet)
    honest = await shop.create_processing_payment(HONEST)
    for _ in range(8):
        await burn_gas(shop, *crowd)
        await advance_time(shop, 61)
    assert (await get_budget_usage(shop)).total_failed_gas < 5 * ONE_MAX
    assert (await shop.run_to_end(honest)).status == "succeeded"


async def test_pending_transaction_counts_against_its_gas_budget(shop):
    """A pending transaction counts as failed, because its outcome is unknown."""
    await make_gas_burners(shop, EVIL, OTHER)
    set_budgets(shop, chain=ONE)
    sent = []
    for wallet in (EVIL, OTHER):
        sent.append(await confirm_payment(shop, wallet))
        await shop.turn()
    (tx,) = await shop.transactions()
    assert tx.item_ids == (sent[0].id,)
    for payment in sent:
        assert (await shop.run_to_end(payment)).status == "succeeded"
        await advance_time(shop, 5)


# creation of accounts


async def test_creating_an_account_for_a_payment_that_fails_is_lost_gas(shop):
    universal = await allow_account_creation(shop)
    target = "0x" + "77" * 20
    account = make_account_by_factory(universal, EVIL, make_burns_when_rich(target))
    await shop.lab.pause()
    payment = await confirm_uncreated_account(shop, account)
    await shop.turn()
    (sent,) = await shop.transactions()
    assert sent.gas_shares[0].kind is PayerKind.UNBORN
    await send_first(shop, target, 1)
    await shop.mine(4)
    assert (await shop.get_item(payment)).failures == 1
    used = await get_budget_usage(shop)
    assert (used.total_failed_gas > ONE, used.total_opening_gas) == (True, 0)
    await shop.restart()
    assert (await shop.get_item(payment)).failures == 1
    await advance_time(shop, 61)
    assert await shop.transactions() == []


async def test_accounts_that_are_created_have_a_budget_of_their_own(shop):
    await allow_account_creation(shop)
    set_budgets(shop, opened_app=200_000)
    mine, other = make_wallet_app("mine"), make_wallet_app("other")
    paid = await confirm_uncreated_account(shop, make_contract_account(EVIL, 1), mine)
    assert (await shop.run_to_end(paid)).status == "succeeded"
    used = await get_budget_usage(shop)
    assert (used.total_failed_gas, 200_000 < used.total_opening_gas < 500_000) == (0, True)
    error = await get_refusal(confirm_uncreated_account(shop, make_contract_account(EVIL, 2), mine))
    assert (error.http_status, error.details["reason"]) == (503, "account_creation_paused")
    assert "of mine for creating accounts is exhausted" in shop.settler.health().problem
    assert (
        await shop.run_to_end(
            await confirm_uncreated_account(shop, make_contract_account(EVIL, 2), other)
        )
    ).status == "succeeded"
    # an existing account costs nothing to create
    account = make_contract_account(EVIL, 1)
    created, option = await make_offer(shop, to_account(account.address), mine)
    document = json.loads(json.loads(option.actions[-1].params_json)[1])
    again = await confirm(
        shop.app, mine, created.id, option.id, [[json.dumps(account.sign(document))]]
    )
    assert (await shop.run_to_end(again)).status == "succeeded"
    set_budgets(shop, opened_chain=200_000)
    error = await get_refusal(
        confirm_uncreated_account(shop, make_contract_account(EVIL, 3), other)
    )
    assert error.details["reason"] == "account_creation_paused"


async def test_old_gas_losses_are_deleted(shop):
    await make_gas_burners(shop, EVIL)
    await confirm_payment(shop, EVIL)
    await burn_gas(shop, EVIL)
    now_us = shop.lab.clock.now_us()
    assert await shop.store.write(gas.forget(now_us - 1_000_000, 10)) == 0
    assert (await get_budget_usage(shop)).total_failed_gas
    assert await shop.store.write(gas.forget(now_us + 1, 10)) == 1
    assert (await get_budget_usage(shop)).total_failed_gas == 0
