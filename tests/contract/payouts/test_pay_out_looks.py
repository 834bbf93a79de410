"""When the payout worker looks at the chain, and what it takes for final there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.rails.types import Mined
from florin_server.workers.payouts.polled_head import PolledHead

from tests.support.payout_lab import office
from tests.support.payout_steps import RECEIPT


@pytest.fixture
async def desk(tmp_path):
    async with office(tmp_path) as running:
        yield running


async def test_what_could_not_be_asked_for_is_asked_for_without_another_block(desk):
    payout = await desk.asked()
    await desk.turn()
    await desk.mine()
    await desk.lab.mine()
    desk.lab.node.lost = frozenset({RECEIPT})
    await desk.turn()
    assert (await desk.now(payout)).status is PayoutStatus.SUBMITTED
    desk.lab.node.lost = frozenset()
    await desk.turn()
    assert (await desk.now(payout)).status is PayoutStatus.DONE


async def test_without_a_block_nothing_is_asked_for_again_but_now_and_then(desk):
    await desk.lab.pause()
    await desk.asked()
    await desk.turn(2)
    for seconds, asks in ((10, True), (0, False), (9, False), (1, True), (1, False)):
        desk.lab.clock.advance(seconds)
        desk.lab.node.asked.clear()
        await desk.turn()
        # what the pool has lost is found by its hash
        assert ("eth_getTransactionByHash" in desk.lab.node.asked) is asks
        assert RECEIPT not in desk.lab.node.asked


async def test_a_block_is_final_only_while_it_is_part_of_the_chain(desk):
    rail = desk.lab.rail
    head = PolledHead(rail.observer, rail.blocks, rail.confirmations)
    await desk.lab.mine(4)
    assert await head.look()
    deep = head.head - 2
    known = await head.hash_of(deep)
    assert await head.hash_of(head.head + 1) is None
    mined = Mined("0x1", deep, known or "", success=True, gas_cost=1)
    assert await head.is_settled(mined)
    assert not await head.is_settled(replace(mined, block_hash="0x" + "00" * 32))
    assert not await head.is_settled(replace(mined, block_number=deep + 1))


async def test_a_block_that_nodes_differ_about_proves_nothing(desk, monkeypatch):
    rail = desk.lab.rail
    head = PolledHead(rail.observer, rail.blocks, rail.confirmations)
    await desk.lab.mine(4)
    await head.look()
    deep = head.head - 2
    mined = Mined("0x1", deep, await head.hash_of(deep) or "", success=True, gas_cost=1)

    async def agreed(facts):
        return {one: one == mined for one in facts}

    monkeypatch.setattr(type(rail.observer), "agreement", 2)
    monkeypatch.setattr(rail.observer, "agreed", agreed)
    assert await head.is_settled(mined)
    assert not await head.is_settled(replace(mined, tx_hash="0x2"))


async def test_turns_are_counted_from_the_first_on(desk):
    """A graph of them tells a worker that stands still, and one that goes round for nothing."""
    assert desk.worker.health().turns == 1
    await desk.turn(3)
    assert desk.worker.health().turns == 4
