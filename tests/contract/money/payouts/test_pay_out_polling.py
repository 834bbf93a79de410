"""Test when the payout worker looks at the chain, and what it considers final there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.money.payouts.worker.polled_head import PolledHead
from florin_server.rails.types import MinedTransaction

from tests.support.payout_lab import open_payout_harness
from tests.support.payout_steps import RECEIPT


@pytest.fixture
async def desk(tmp_path):
    async with open_payout_harness(tmp_path) as running:
        yield running


async def test_failed_receipt_read_is_retried_without_a_new_block(desk):
    payout = await desk.create_payout()
    await desk.turn()
    await desk.mine()
    await desk.lab.mine()
    desk.lab.node.lost_methods = frozenset({RECEIPT})
    await desk.turn()
    assert (await desk.get_payout(payout)).status is PayoutStatus.SUBMITTED
    desk.lab.node.lost_methods = frozenset()
    await desk.turn()
    assert (await desk.get_payout(payout)).status is PayoutStatus.DONE


async def test_transactions_are_checked_only_every_ten_seconds_without_a_new_block(desk):
    await desk.lab.pause()
    await desk.create_payout()
    await desk.turn(2)
    for seconds, asks in ((10, True), (0, False), (9, False), (1, True), (1, False)):
        desk.lab.clock.advance(seconds)
        desk.lab.node.methods.clear()
        await desk.turn()
        # a call by hash shows whether the pool lost the transaction
        assert ("eth_getTransactionByHash" in desk.lab.node.methods) is asks
        assert RECEIPT not in desk.lab.node.methods


async def test_a_block_is_final_only_while_it_is_part_of_the_chain(desk):
    rail = desk.lab.rail
    head = PolledHead(rail.observer, rail.blocks, rail.confirmations)
    await desk.lab.mine(4)
    assert await head.poll()
    deep = head.head - 2
    existing = await head.find_block_hash(deep)
    assert await head.find_block_hash(head.head + 1) is None
    mined = MinedTransaction("0x1", deep, existing or "", success=True, gas_cost=1)
    assert await head.is_settled(mined)
    assert not await head.is_settled(replace(mined, block_hash="0x" + "00" * 32))
    assert not await head.is_settled(replace(mined, block_number=deep + 1))


async def test_a_block_that_nodes_differ_about_proves_nothing(desk, monkeypatch):
    rail = desk.lab.rail
    head = PolledHead(rail.observer, rail.blocks, rail.confirmations)
    await desk.lab.mine(4)
    await head.poll()
    deep = head.head - 2
    mined = MinedTransaction(
        "0x1", deep, await head.find_block_hash(deep) or "", success=True, gas_cost=1
    )

    async def agreed(facts):
        return {fact: fact == mined for fact in facts}

    monkeypatch.setattr(type(rail.observer), "agreement", 2)
    monkeypatch.setattr(rail.observer, "confirm_facts", agreed)
    assert await head.is_settled(mined)
    assert not await head.is_settled(replace(mined, tx_hash="0x2"))


async def test_turns_are_counted_from_the_first_on(desk):
    """A graph of turns reveals a stopped worker and one that loops without work."""
    assert desk.worker.health().turn_count == 1
    await desk.turn(3)
    assert desk.worker.health().turn_count == 4
