"""Test a store that lost payouts, as after a failover to a lagging standby.

The chain still has them, so each test ends by counting the transfers there.
"""

from __future__ import annotations

import pytest
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.money.settlement.worker.key_nonces import recover
from florin_server.operations.store import executors
from florin_server.rails.evm.known_contracts import DEPLOYER

from tests.support.evm_harness import CHAIN, MERCHANT, RELAYER, TOKEN, to_account
from tests.support.payout_actions import COIN
from tests.support.payout_harness import BUYER, TREASURY, TREASURY_KEY, open_payout_harness

OTHER = "mrch_other"
GWEI = 10**9


@pytest.fixture
async def desk(tmp_path):
    async with open_payout_harness(tmp_path) as running:
        yield running


@pytest.mark.parametrize("asset", [TOKEN, COIN])
async def test_lost_payout_transaction_is_adopted_and_not_paid_again(desk, asset):
    await desk.wait_done(await desk.create_payout(10, asset=asset))
    payout = await desk.create_payout(150, asset=asset)
    await desk.remember()
    paid = await desk.wait_done(payout)
    await desk.forget()
    # it is followed to its end as sent, and payouts wait for the operator
    assert f"{CHAIN} has a transaction of {TREASURY.address}" in desk.get_lag_reason()
    again = await desk.wait_done(payout)
    assert again.tx_id == paid.tx_id
    assert (await desk.refund(payout)).status == "succeeded"
    later = await desk.create_payout(7, asset=asset)
    await desk.turn(2)
    assert (await desk.get_payout(later)).status is PayoutStatus.WAITING
    await desk.resume()
    await desk.wait_done(later)
    assert desk.get_lag_reason() == ""
    held = int(await desk.lab.control.call("eth_getBalance", BUYER, "latest"), 16)
    assert (held if asset == COIN else await desk.lab.balance(BUYER)) == 167


async def test_a_transfer_that_several_merchants_wait_for_is_left_to_the_operator(desk):
    await desk.wait_done(await desk.create_payout(10))
    ours, theirs = await desk.create_payout(150), await desk.create_payout(150, merchant_id=OTHER)
    await desk.remember()
    await desk.wait_done(ours)
    await desk.forget()
    await desk.turn(3)
    for item in (ours, theirs):
        assert (await desk.get_payout(item)).status is PayoutStatus.WAITING
    assert desk.get_lag_reason()


async def test_lost_payouts_pause_later_payouts_until_resumed(desk):
    await desk.wait_done(await desk.create_payout(10))
    await desk.remember()
    await desk.wait_done(await desk.create_payout(150))
    await desk.wait_done(await desk.create_payout(151))
    await desk.forget()
    assert "has 2 transactions of" in desk.get_lag_reason()
    later = await desk.create_payout(7)
    await desk.restart()
    await desk.turn(2)
    # a restart does not resolve it
    assert (await desk.get_payout(later)).status is PayoutStatus.WAITING
    assert "has 2 transactions of" in desk.get_lag_reason()
    await desk.resume()
    await desk.wait_done(later)
    await desk.restart()
    assert desk.get_lag_reason() == ""


async def test_a_lost_transaction_that_waits_for_its_block_is_noticed(desk):
    await desk.wait_done(await desk.create_payout(10))
    payout = await desk.create_payout(150)
    await desk.lab.pause()
    await desk.remember()
    await desk.turn()
    assert len(await desk.transactions()) == 1
    await desk.forget()
    assert desk.get_lag_reason()
    await desk.lab.mine(3)
    await desk.turn(2)
    assert (await desk.get_payout(payout)).status is PayoutStatus.WAITING
    assert await desk.transfers() == [10, 150]


async def test_lost_transaction_that_is_mined_first_is_adopted(desk):
    await desk.wait_done(await desk.create_payout(10))
    payout = await desk.create_payout(150)
    await desk.lab.pause()
    await desk.remember()
    await desk.turn()
    (lost,) = await desk.transactions()
    await desk.fault(kind="evict", transactions=[lost.hash])
    await desk.fault(kind="baseFee", wei=hex(3 * GWEI))
    await desk.lab.mine()
    await desk.forget()
    # no node knew of it, so the payout was sent again with its nonce
    await desk.turn()
    (sent,) = await desk.transactions()
    assert (sent.nonce, sent.item_ids) == (lost.nonce, lost.item_ids)
    assert sent.hash != lost.hash
    assert desk.get_lag_reason() == ""
    await desk.fault(kind="evict", transactions=[sent.hash])
    await desk.fault(kind="baseFee", wei=hex(GWEI))
    await desk.lab.control.call("eth_sendRawTransaction", "0x" + lost.raw.hex())
    await desk.mine(3)
    desk.lab.clock.advance(11)
    await desk.turn(2)
    assert f"has nonce {lost.nonce}" in desk.get_lag_reason()
    assert (await desk.wait_done(payout)).tx_id == lost.hash
    assert await desk.transfers() == [10, 150]


async def test_transactions_of_a_relayer_that_the_store_lost_pause_payouts(desk):
    await recover(desk.app, desk.lab.rail, RELAYER.address, [], None)
    await recover(desk.app, desk.lab.rail, RELAYER.address, [], None)
    assert await desk.store.read(executors.list_pauses()) == {}
    await desk.lab.send(key=b"\x52" * 32, to=MERCHANT, value=1)
    await recover(desk.app, desk.lab.rail, RELAYER.address, [], None)
    assert list(await desk.store.read(executors.list_pauses())) == [to_account(TREASURY.address)]


async def test_deployment_with_the_treasury_key_is_not_reported_as_a_loss(desk):
    await desk.wait_done(await desk.create_payout(10))
    for while_it_runs in (False, True):
        if while_it_runs:
            await desk.lab.pause()
            payout = await desk.create_payout(150)
            await desk.turn()
            (sent,) = await desk.transactions()
            await desk.fault(kind="evict", transactions=[sent.hash])
            await desk.fault(kind="mining", paused=False)
        await desk.lab.send(key=TREASURY_KEY, to=DEPLOYER)
        if not while_it_runs:
            await desk.restart()
            payout = await desk.create_payout(150)
        await desk.lab.mine(3)
        desk.lab.clock.advance(11)
        await desk.turn(2)
        await desk.wait_done(payout)
        assert desk.get_lag_reason() == ""
    assert await desk.transfers() == [10, 150, 150]


async def test_a_database_of_another_timeline_pauses_payouts_once(desk):
    account, now_us = desk.worker.key.account, desk.lab.clock.now_us()

    async def look(identity: str) -> str:
        return await desk.store.write(executors.check_database([account], now_us, identity))

    await look("system 1, timeline 1")
    await desk.resume()
    assert await look("system 1, timeline 1") == ""
    assert await look("system 1, timeline 2") == (
        "the database changed from system 1, timeline 1 to system 1, timeline 2"
    )
    assert await look("system 1, timeline 2") == ""
    assert list(await desk.store.read(executors.list_pauses())) == [account]


async def test_nothing_is_sent_with_a_key_that_was_paused_a_moment_ago(desk):
    payout = await desk.create_payout(150)
    account = desk.worker.key.account
    await desk.store.write(executors.pause(account, desk.lab.clock.now_us()))
    # this process has not heard of it yet
    assert not desk.worker.key.is_paused
    await desk.turn(2)
    assert await desk.transfers() == []
    assert (await desk.get_payout(payout)).status is PayoutStatus.WAITING
