"""What transactions may lose in an hour, by payer, app and chain; and who waits then."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.flows.operator import system
from florin_server.flows.payments.confirm import confirm
from florin_server.store.settlement import gas

from tests.support.evm_lab import account_of, buyer
from tests.support.gas_lab import (
    EVIL,
    HONEST,
    ONE,
    ONE_MAX,
    OTHER,
    accepted,
    broadcasts,
    budget,
    burn,
    creating,
    evil,
    handed_in,
    lost,
    offered,
    push,
    refusal,
    unborn,
    wait,
    wallet_app,
)
from tests.support.hostile import (
    burns_when_rich,
)
from tests.support.settler_lab import BUYER, Works, works
from tests.support.smart import made_by, smart


@pytest.fixture
async def shop(tmp_path) -> AsyncIterator[Works]:
    async with works(tmp_path) as running:
        yield running


# budgets


async def test_a_payer_that_lost_too_much_waits_for_the_next_hour(shop):
    await evil(shop, EVIL)
    budget(shop, payer=ONE)
    third = await offered(shop, account_of(EVIL))
    first = await accepted(shop, EVIL)
    shop.lab.clock.advance(1)
    second = await accepted(shop, EVIL)
    await shop.turn()
    # the second would overdraw the budget, should both fail
    (sent,) = await shop.transactions()
    assert sent.item_ids == (first.id,)
    await burn(shop, EVIL)
    await wait(shop, 61)
    assert broadcasts(shop) == 1
    assert shop.settler.health().paused == 2
    error = await refusal(handed_in(shop, EVIL, third, BUYER))
    assert (error.http, error.details["reason"]) == (503, "payer_paused")
    assert (await shop.now(third[0])).status == "requires_action"
    assert 0 < (error.retry_after_s or 0) <= 3600
    # others do not mind
    assert (await shop.end(await shop.accepted(HONEST))).status == "succeeded"
    shop.lab.clock.advance(3600)
    await shop.turn(2)
    assert shop.settler.health().paused == 0
    for payment in (first, second):
        await shop.mine()
        await wait(shop, 5)
        assert (await shop.end(payment)).status == "succeeded"


async def test_an_app_that_lost_too_much_pauses_its_own_contract_accounts(shop, caplog):
    await evil(shop, EVIL, OTHER)
    budget(shop, app=ONE)
    bad, good = wallet_app("bad"), wallet_app("good")
    offer = await offered(shop, account_of(OTHER), bad)
    await accepted(shop, EVIL, bad)
    await burn(shop, EVIL)
    error = await refusal(handed_in(shop, OTHER, offer, bad))
    assert (error.http, error.details["reason"]) == (503, "contract_accounts_paused")
    assert "of bad for failed gas is exhausted" in shop.settler.health().problem
    _, option = await offered(shop, account_of(OTHER), bad)
    assert option.method == "direct"
    paid = [await accepted(shop, OTHER, good), await accepted(shop, HONEST, bad)]
    assert [(await shop.end(one)).status for one in paid] == ["succeeded"] * 2
    told = [line for line in caplog.messages if "of bad for failed gas is exhausted" in line]
    await wait(shop, 100)
    assert len(told) == 1


async def test_a_chain_that_lost_too_much_pauses_contract_accounts_and_nobody_else(shop):
    await evil(shop, EVIL, OTHER)
    budget(shop, chain=ONE)
    good = wallet_app("good")
    offer = await offered(shop, account_of(OTHER), good)
    waiting = await accepted(shop, EVIL)
    await burn(shop, EVIL)
    await wait(shop, 61)
    error = await refusal(handed_in(shop, OTHER, offer, good))
    assert (error.http, error.details["reason"]) == (503, "contract_accounts_paused")
    # what is offered instead is a transaction of the account's own
    _, option = await offered(shop, account_of(OTHER))
    assert option.method == "direct"
    _, option = await offered(shop, account_of(HONEST))
    assert option.method == "eip3009"
    assert (await shop.end(await shop.accepted(HONEST))).status == "succeeded"
    assert await shop.transactions() == []
    (chain,) = await system.chains(shop.app)
    assert (chain.gas.failed >= ONE, chain.gas.paused, chain.gas.given_up) == (True, 1, 0)
    assert "payments of accounts with code are paused until 09:00 UTC" in chain.problem
    await shop.restart()
    budget(shop, chain=ONE)
    await refusal(handed_in(shop, OTHER, offer, good))
    shop.lab.clock.advance(3600)
    await shop.turn(2)
    later = await handed_in(shop, OTHER, offer, good)
    for payment in (waiting, later):
        # one after the other fits into the budget
        await shop.mine(3)
        await wait(shop, 5)
        assert (await shop.end(payment)).status == "succeeded"


async def test_no_more_is_on_its_way_than_a_budget_covers(shop):
    """Accounts that fail together lose no more than those that fail one after the other."""
    crowd = [buyer(400 + number) for number in range(8)]
    await evil(shop, *crowd)
    budget(shop, chain=4 * ONE_MAX)
    for wallet in crowd:
        await accepted(shop, wallet)
    honest = await shop.accepted(HONEST)
    for _ in range(8):
        await burn(shop, *crowd)
        await wait(shop, 61)
    assert (await lost(shop)).failed < 5 * ONE_MAX
    assert (await shop.end(honest)).status == "succeeded"


async def test_what_is_on_its_way_takes_its_share_of_a_budget(shop):
    """As if it failed: nobody knows yet."""
    await evil(shop, EVIL, OTHER)
    budget(shop, chain=ONE)
    sent = []
    for wallet in (EVIL, OTHER):
        sent.append(await accepted(shop, wallet))
        await shop.turn()
    (tx,) = await shop.transactions()
    assert tx.item_ids == (sent[0].id,)
    for payment in sent:
        assert (await shop.end(payment)).status == "succeeded"
        await wait(shop, 5)


# accounts that are created


async def test_creating_an_account_for_a_payment_that_fails_is_lost_gas(shop):
    universal = await creating(shop)
    target = "0x" + "77" * 20
    account = made_by(universal, EVIL, burns_when_rich(target))
    await shop.lab.pause()
    payment = await unborn(shop, account)
    await shop.turn()
    (sent,) = await shop.transactions()
    assert sent.shares[0].kind is PayerKind.UNBORN
    await push(shop, target, 1)
    await shop.mine(4)
    assert (await shop.item(payment)).failures == 1
    used = await lost(shop)
    assert (used.failed > ONE, used.opened) == (True, 0)
    await shop.restart()
    assert (await shop.item(payment)).failures == 1
    await wait(shop, 61)
    assert await shop.transactions() == []


async def test_accounts_that_are_created_have_a_budget_of_their_own(shop):
    await creating(shop)
    budget(shop, opened_app=200_000)
    mine, other = wallet_app("mine"), wallet_app("other")
    paid = await unborn(shop, smart(EVIL, 1), mine)
    assert (await shop.end(paid)).status == "succeeded"
    used = await lost(shop)
    assert (used.failed, 200_000 < used.opened < 500_000) == (0, True)
    error = await refusal(unborn(shop, smart(EVIL, 2), mine))
    assert (error.http, error.details["reason"]) == (503, "account_creation_paused")
    assert "of mine for creating accounts is exhausted" in shop.settler.health().problem
    assert (await shop.end(await unborn(shop, smart(EVIL, 2), other))).status == "succeeded"
    # an account that exists costs nothing to create
    known = smart(EVIL, 1)
    made, option = await offered(shop, account_of(known.address), mine)
    document = json.loads(json.loads(option.actions[-1].params_json)[1])
    again = await confirm(shop.app, mine, made.id, option.id, [[json.dumps(known.sign(document))]])
    assert (await shop.end(again)).status == "succeeded"
    budget(shop, opened_chain=200_000)
    error = await refusal(unborn(shop, smart(EVIL, 3), other))
    assert error.details["reason"] == "account_creation_paused"


async def test_what_was_lost_long_ago_is_deleted(shop):
    await evil(shop, EVIL)
    await accepted(shop, EVIL)
    await burn(shop, EVIL)
    now_us = shop.lab.clock.now_us()
    assert await shop.store.write(gas.forget(now_us - 1_000_000, 10)) == 0
    assert (await lost(shop)).failed
    assert await shop.store.write(gas.forget(now_us + 1, 10)) == 1
    assert (await lost(shop)).failed == 0
