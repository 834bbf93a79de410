"""What settling asks of a node and writes down: no more than it needs."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.fees import FEES_S
from florin_server.rails.evm.sending.transactions import fees_of
from florin_server.workers.settlement.blocks import follow
from florin_server.workers.settlement.direct_payments import DirectPayments
from florin_server.workers.settlement.open_payments import OpenPayments

from tests.support.evm_lab import RELAYER, buyer, open_lab, refuse, settings
from tests.support.settler_lab import Works, works

GWEI = 10**9


@pytest.fixture
async def shop(tmp_path):
    async with works(tmp_path) as running:
        yield running


async def one_each(shop: Works, *numbers: int) -> None:
    """Payments that are accepted in one moment and settled by a transaction each."""
    shop.app.settings.__dict__["settle_batch"] = 1
    await shop.lab.pause()
    for number in numbers:
        await shop.accepted(buyer(number))


async def test_what_gas_costs_is_asked_once_for_all_that_is_sent_between_two_blocks(shop):
    await one_each(shop, 101, 102, 103)
    before = Counter(shop.lab.node.asked)
    await shop.turn()
    asked = Counter(shop.lab.node.asked) - before
    assert asked["eth_sendRawTransaction"] == 3
    assert asked["eth_maxPriorityFeePerGas"] == 1
    await shop.mine()
    await shop.accepted(buyer(104))
    await shop.turn()
    assert (Counter(shop.lab.node.asked) - before)["eth_maxPriorityFeePerGas"] == 2


async def test_what_is_sent_in_one_turn_is_noted_with_one_commit(shop, monkeypatch):
    await one_each(shop, 101, 102, 103)
    commits = []
    write = shop.store.write
    monkeypatch.setattr(
        type(shop.store), "write", lambda _, op: commits.append(op.steps.__name__) or write(op)
    )
    await shop.turn()
    # a chain on which time decides has its heads kept besides
    assert Counter(one for one in commits if one != "keep") == {"append": 3, "sent": 1}
    assert [tx.state for tx in await shop.transactions()] == [TxState.SENT] * 3


@pytest.mark.parametrize("count", [1, 7])
async def test_new_blocks_cost_two_calls_while_nobody_pays(shop, count):
    await shop.turn()
    before = Counter(shop.lab.node.asked)
    await shop.lab.mine(count)
    await shop.turn()
    asked = Counter(shop.lab.node.asked) - before
    assert asked == {"eth_getBlockByNumber": 1, "eth_getLogs": 1}


async def test_a_new_block_costs_three_calls_while_a_payment_is_open(shop):
    await one_each(shop, 101)
    await shop.turn()
    before = Counter(shop.lab.node.asked)
    await shop.lab.mine()
    await shop.turn()
    asked = Counter(shop.lab.node.asked) - before
    assert asked["eth_getBlockByNumber"] == 2
    assert asked["eth_getBlockReceipts"] == 1
    assert asked["eth_getLogs"] == 0


async def test_a_node_that_refuses_logs_of_ranges_is_asked_block_by_block(shop):
    await shop.turn()
    shop.lab.node.changes["eth_getLogs"] = refuse(-32602, "no ranges")
    before = Counter(shop.lab.node.asked)
    await shop.lab.mine(2)
    await shop.turn()
    asked = Counter(shop.lab.node.asked) - before
    assert asked["eth_getBlockReceipts"] == 2


async def test_what_gas_costs_is_asked_again_after_a_while(evm):
    lab = await open_lab(evm=evm)
    now = [0.0]
    rail = EvmRail(settings(), RELAYER, lab.node, now=lambda: now[0])
    await rail.start()
    item = await lab.sold(1)

    async def max_fee() -> int:
        return fees_of((await rail.relay.sign(RELAYER.address, 0, [item])).raw).max_fee

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
    await rail.observer.head()
    assert await max_fee() < second
    await rail.close()
    await lab.rail.close()
    await lab.chain.close()


async def test_it_rests_until_a_block_comes_or_a_payment_is_accepted(shop, monkeypatch):
    asked, block = asyncio.Event(), asyncio.Event()

    async def at_once() -> None:
        return

    async def not_yet() -> None:
        asked.set()
        await block.wait()

    async def rest() -> None:
        async with asyncio.timeout(20):
            await shop.settler.rest()

    monkeypatch.setattr(shop.lab.rail.nodes, "wait_for_block", at_once)
    await rest()
    monkeypatch.setattr(shop.lab.rail.nodes, "wait_for_block", not_yet)
    shop.settler.wake()
    await rest()
    # what woke it is over: it waits for a block now
    asked.clear()
    again = asyncio.create_task(rest())
    await asked.wait()
    for _ in range(10):
        # whatever could let it go on does so now
        await asyncio.sleep(0)
    assert not again.done()
    block.set()
    await again


async def test_what_was_accepted_since_the_last_comparison_is_left_to_the_blocks(shop):
    await shop.lab.pause()
    await shop.accepted(buyer(101))
    await shop.turn()
    # what a settler knows of its payments, with blocks that only this test follows
    blocks = follow(shop.lab.rail)
    await blocks.start()
    known = OpenPayments(shop.app, shop.lab.rail, blocks)
    await known.load()
    (item,) = known.items
    at_us = item.confirmation.at_us
    assert known.unseen(at_us) == [item]
    assert known.unseen(at_us - 1) == []
    await shop.lab.mine()
    await blocks.look()
    await DirectPayments(shop.app, shop.lab.rail, blocks).adopt(known.by_ref)
    assert known.seen(item)
    # what blocks told of is not asked for, whenever it was accepted
    assert known.unseen(at_us) == known.unseen(at_us - 1) == []
    # what has ended a payment is let go of together with it
    known.over({item.payment.id})
    assert (len(known), known.seen(item)) == (0, False)


async def test_payments_are_looked_for_together(shop):
    await shop.lab.pause()
    for number in (101, 102, 103):
        await shop.accepted(buyer(number))
    await shop.turn()
    known = OpenPayments(shop.app, shop.lab.rail, follow(shop.lab.rail))
    await known.load()
    items = list(known.items)
    assert len(items) == 3
    asked = []
    for some in (items[:1], items):
        shop.lab.node.asked.clear()
        await known.find_events(some)
        asked.append(shop.lab.node.asked.count("eth_getLogs"))
    assert asked == [1, 1]
