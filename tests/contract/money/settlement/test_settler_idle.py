"""Test a chain without pending payments: its blocks are not read, and nothing is missed."""

from __future__ import annotations

import pytest
from florin_server.rails.evm.settings import EvmCoinSettings

from tests.support.block_chain import InMemoryChain, follower, make_mined, make_paid
from tests.support.evm_harness import make_reply
from tests.support.settlement_actions import make_coin_offer, send_payment
from tests.support.settlement_harness import open_settlement_harness


@pytest.fixture
def chain():
    created_chain = InMemoryChain()
    created_chain.grow(10)
    return created_chain


@pytest.fixture
async def shop(tmp_path):
    async with open_settlement_harness(
        tmp_path, coin=EvmCoinSettings(name="Test Ether", symbol="tETH")
    ) as running:
        yield running


@pytest.mark.parametrize("count", [1, 2, 200])
async def test_blocks_without_events_are_not_read_while_nothing_is_waited_for(chain, count):
    blocks = await follower(chain)
    chain.grow(count)
    assert await blocks.poll(is_idle=True)
    assert (blocks.head, blocks.rewind_count) == (9 + count, 0)
    assert not await blocks.poll(is_idle=True)
    assert chain.read == []
    assert (blocks.time, blocks.interval) == (chain.views[-1].time, 10)
    # they are read again when they are final, together with the earlier non-final ones
    assert blocks.doubtful_blocks == range(8, 10 + count)
    chain.grow()
    await blocks.poll()
    assert chain.read == [10 + count]
    assert (blocks.head, blocks.rewind_count) == (10 + count, 0)


async def test_block_reread_once_is_not_reread_again(chain):
    blocks = await follower(chain)
    chain.grow(10)
    await blocks.poll(is_idle=True)
    blocks.doubtful_blocks = range(blocks.newest_final + 1, blocks.doubtful_blocks.stop)
    chain.grow(10)
    await blocks.poll(is_idle=True)
    assert blocks.doubtful_blocks == range(18, 30)


async def test_blocks_with_an_event_are_read_and_then_all_that_follow(chain):
    blocks = await follower(chain)
    chain.grow(2)
    chain.grow(1, 10, make_paid())
    chain.grow()
    assert await blocks.poll(is_idle=True)
    assert chain.read == [10, 11, 12, 13]
    assert [event.ref for event in blocks.evidence.new_events] == ["a"]
    chain.grow(2)
    await blocks.poll(is_idle=True)
    assert chain.read[4:] == [14, 15]
    assert not blocks.doubtful_blocks


async def test_blocks_wait_for_a_look_that_asks_for_their_events(chain):
    blocks = await follower(chain)
    chain.grow(1, 10, make_paid())
    chain.is_attest_forbidden = True
    assert not await blocks.poll(is_idle=True)
    assert (blocks.head, chain.read) == (9, [])
    chain.is_attest_forbidden = False
    assert await blocks.poll(is_idle=True)
    assert [event.ref for event in blocks.evidence.new_events] == ["a"]


async def test_replaced_blocks_are_noticed_by_their_parent_without_being_waited_for(chain):
    blocks = await follower(chain)
    chain.cut(9)
    chain.grow(2)
    await blocks.poll(is_idle=True)
    assert (blocks.head, blocks.rewind_count) == (10, 1)
    assert chain.read == [10, 9, 9, 10]


async def test_a_chain_that_is_shorter_is_followed_back_without_being_waited_for(chain):
    blocks = await follower(chain)
    chain.grow(3)
    await blocks.poll()
    chain.cut(11)
    assert await blocks.poll(is_idle=True)
    assert (blocks.head, blocks.rewind_count) == (10, 1)


async def test_hash_of_an_unread_replaced_block_is_requested(chain):
    blocks = await follower(chain)
    chain.cut(9)
    chain.grow(5)
    await blocks.poll(is_idle=True)
    assert await blocks.find_block_hash(9) == chain.views[9].hash
    assert chain.read == [9]


async def test_all_that_was_not_read_is_read_once_it_may_be_replaced(chain):
    blocks = await follower(chain)
    chain.grow(8)
    await blocks.poll(is_idle=True)
    chain.cut(14)
    chain.grow(1, 10, make_paid("moved"), make_mined())
    chain.grow(5)
    chain.read.clear()
    assert await blocks.poll()
    assert (blocks.head, blocks.rewind_count) == (19, 1)
    assert [event.ref for event in blocks.evidence.new_events] == ["moved"]
    assert blocks.evidence.mined_transactions.keys() == {"0xours"}
    assert chain.read == [18, 17, *range(8, 20)]


async def test_event_with_a_late_log_is_detected_when_its_block_is_final(shop):
    payment, option = await make_coin_offer(shop)
    await shop.turn()
    shop.lab.node.changes["eth_getLogs"] = make_reply([])
    tx_hash = await send_payment(shop, option)
    # nothing else announces the payment, and its block is not read
    await shop.turn()
    assert await shop.status(payment) == "requires_action"
    del shop.lab.node.changes["eth_getLogs"]
    await shop.mine(3)
    assert await shop.status(payment) == "requires_action"
    shop.lab.clock.advance(10)
    await shop.turn(2)
    ended = await shop.get_payment(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)
    await shop.check(ended)


async def test_event_in_an_unnoticed_replacement_block_is_detected(shop):
    payment, option = await make_coin_offer(shop)
    await shop.turn()
    shop.lab.node.changes["eth_getLogs"] = make_reply([])
    tx_hash = await send_payment(shop, option)
    await shop.turn()
    await shop.lab.reorg(1)
    del shop.lab.node.changes["eth_getLogs"]
    await shop.lab.mine(5)
    await shop.turn()
    shop.lab.clock.advance(10)
    await shop.turn(3)
    ended = await shop.get_payment(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)
    await shop.check(ended)
