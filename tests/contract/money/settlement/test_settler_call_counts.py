"""Test that settling makes no more node calls and store writes than it needs."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from florin_server.base.topics import Topic
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.money.settlement.worker.address_payments import AddressPayments
from florin_server.money.settlement.worker.blocks import ChainFollower, create_follower
from florin_server.money.settlement.worker.direct_payments import DirectPayments
from florin_server.money.settlement.worker.open_payments import OpenPayments
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.fees import FEES_S
from florin_server.rails.evm.sending.transactions import parse_fees

from tests.support.evm_harness import (
    RELAYER,
    make_buyer,
    make_chain_settings,
    make_refusal,
    open_lab,
)
from tests.support.settlement_harness import SettlementHarness, open_settlement_harness

GWEI = 10**9


def _create_direct_payments(shop: SettlementHarness, blocks: ChainFollower) -> DirectPayments:
    addresses = AddressPayments(shop.app, shop.lab.rail, blocks)
    return DirectPayments(shop.app, shop.lab.rail, blocks, addresses)


@pytest.fixture
async def shop(tmp_path):
    async with open_settlement_harness(tmp_path) as running:
        yield running


async def one_each(shop: SettlementHarness, *numbers: int) -> None:
    """Accept payments at one moment and settle each in its own transaction."""
    shop.app.settings.__dict__["settle_batch"] = 1
    await shop.lab.pause()
    for number in numbers:
        await shop.create_processing_payment(make_buyer(number))


async def test_gas_price_is_requested_once_per_block_for_all_transactions(shop):
    await one_each(shop, 101, 102, 103)
    before = Counter(shop.lab.node.methods)
    await shop.turn()
    request = Counter(shop.lab.node.methods) - before
    assert request["eth_sendRawTransaction"] == 3
    assert request["eth_maxPriorityFeePerGas"] == 1
    await shop.mine()
    await shop.create_processing_payment(make_buyer(104))
    await shop.turn()
    assert (Counter(shop.lab.node.methods) - before)["eth_maxPriorityFeePerGas"] == 2


async def test_broadcasts_of_a_turn_are_recorded_in_a_single_commit(shop, monkeypatch):
    await one_each(shop, 101, 102, 103)
    commits = []
    write = shop.store.write
    monkeypatch.setattr(
        type(shop.store), "write", lambda _, op: commits.append(op.steps.__name__) or write(op)
    )
    await shop.turn()
    # a chain whose finality depends on time also has its heads stored
    assert Counter(commit for commit in commits if commit != "save") == {
        "append": 3,
        "record_broadcasts": 1,
    }
    assert [tx.state for tx in await shop.transactions()] == [TxState.SENT] * 3


@pytest.mark.parametrize("count", [1, 7])
async def test_new_blocks_cost_two_calls_while_no_payment_is_open(shop, count):
    await shop.turn()
    before = Counter(shop.lab.node.methods)
    await shop.lab.mine(count)
    await shop.turn()
    request = Counter(shop.lab.node.methods) - before
    assert request == {"eth_getBlockByNumber": 1, "eth_getLogs": 1}


async def test_a_new_block_costs_three_calls_while_a_payment_is_open(shop):
    await one_each(shop, 101)
    await shop.turn()
    before = Counter(shop.lab.node.methods)
    await shop.lab.mine()
    await shop.turn()
    request = Counter(shop.lab.node.methods) - before
    assert request["eth_getBlockByNumber"] == 2
    assert request["eth_getBlockReceipts"] == 1
    assert request["eth_getLogs"] == 0


async def test_node_that_refuses_log_ranges_is_read_block_by_block(shop):
    await shop.turn()
    shop.lab.node.changes["eth_getLogs"] = make_refusal(-32602, "no ranges")
    before = Counter(shop.lab.node.methods)
    await shop.lab.mine(2)
    await shop.turn()
    request = Counter(shop.lab.node.methods) - before
    assert request["eth_getBlockReceipts"] == 2


async def test_gas_price_is_requested_again_after_its_cache_time(evm):
    lab = await open_lab(evm=evm)
    now = [0.0]
    rail = EvmRail(make_chain_settings(), RELAYER, lab.node, now=lambda: now[0])
    await rail.start()
    item = await lab.create_verified_item(1)

    async def max_fee() -> int:
        return parse_fees((await rail.relay.sign(RELAYER.address, 0, [item])).raw).max_fee

    async def block_at(gwei: int) -> None:
        await lab.control.call("florin_fault", {"kind": "baseFee", "wei": hex(gwei * GWEI)})
        await lab.mine()

    first = await max_fee()
    await block_at(40)
    assert await max_fee() == first
    now[0] += FEES_S * 1.01
    second = await max_fee()
    assert second > 2 * first
    await block_at(20)
    assert await max_fee() == second
    await rail.observer.get_head()
    assert await max_fee() < second
    await rail.close()
    await lab.rail.close()
    await lab.chain.close()


async def test_it_rests_until_a_block_comes_or_a_payment_is_accepted(shop, monkeypatch):
    event, block = asyncio.Event(), asyncio.Event()

    async def at_once() -> None:
        return

    async def not_yet() -> None:
        event.set()
        await block.wait()

    async def rest() -> None:
        async with asyncio.timeout(20):
            await shop.settler.rest()

    monkeypatch.setattr(shop.lab.rail.nodes, "wait_for_block", at_once)
    await rest()
    monkeypatch.setattr(shop.lab.rail.nodes, "wait_for_block", not_yet)
    shop.app.notifier.notify_all(Topic.SETTLEMENT)
    await rest()
    # the reason to wake is gone: the settler now waits for a block
    event.clear()
    again = asyncio.create_task(rest())
    await event.wait()
    for _ in range(10):
        # every event that lets it continue does so now
        await asyncio.sleep(0)
    assert not again.done()
    block.set()
    await again


async def test_payment_accepted_since_the_last_comparison_is_left_to_the_blocks(shop):
    await shop.lab.pause()
    await shop.create_processing_payment(make_buyer(101))
    await shop.turn()
    # the settler's knowledge of its payments, with blocks that only this test follows
    blocks = create_follower(shop.lab.rail)
    await blocks.start()
    open_payments = OpenPayments(shop.app, shop.lab.rail, blocks)
    await open_payments.load()
    (item,) = open_payments.items
    at_us = item.confirmation.at_us
    assert open_payments.list_unseen(at_us) == [item]
    assert open_payments.list_unseen(at_us - 1) == []
    await shop.lab.mine()
    await blocks.poll()
    await _create_direct_payments(shop, blocks).adopt(open_payments.items_by_ref)
    assert open_payments.has_event(item)
    # facts that blocks showed are not requested, whenever the payment was accepted
    assert open_payments.list_unseen(at_us) == open_payments.list_unseen(at_us - 1) == []
    # the proof is dropped together with the ended payment
    open_payments.remove({item.payment.id})
    assert (len(open_payments), open_payments.has_event(item)) == (0, False)


async def test_payments_are_looked_for_together(shop):
    await shop.lab.pause()
    for number in (101, 102, 103):
        await shop.create_processing_payment(make_buyer(number))
    await shop.turn()
    open_payments = OpenPayments(shop.app, shop.lab.rail, create_follower(shop.lab.rail))
    await open_payments.load()
    items = list(open_payments.items)
    assert len(items) == 3
    requests = []
    for some_items in (items[:1], items):
        shop.lab.node.methods.clear()
        await open_payments.find_events(some_items)
        requests.append(shop.lab.node.methods.count("eth_getLogs"))
    assert requests == [1, 1]
