"""A chain on which nothing is waited for: its blocks are not read, and nothing is missed."""

from __future__ import annotations

import pytest
from florin_server.rails.evm.settings import EvmCoin

from tests.support.block_chain import Chain, follower, mined, paid
from tests.support.evm_lab import reply
from tests.support.settler_lab import works
from tests.support.settler_steps import coin, sent


@pytest.fixture
def chain():
    made = Chain()
    made.grow(10)
    return made


@pytest.fixture
async def shop(tmp_path):
    async with works(tmp_path, coin=EvmCoin(name="Test Ether", symbol="tETH")) as running:
        yield running


@pytest.mark.parametrize("count", [1, 2, 200])
async def test_blocks_without_events_are_not_read_while_nothing_is_waited_for(chain, count):
    blocks = await follower(chain)
    chain.grow(count)
    assert await blocks.look(idle=True)
    assert (blocks.head, blocks.rewinds) == (9 + count, 0)
    assert not await blocks.look(idle=True)
    assert chain.read == []
    assert (blocks.time, blocks.interval) == (chain.views[-1].time, 10)
    # they are read again when they are final, and what was not final before them
    assert blocks.doubtful == range(8, 10 + count)
    chain.grow()
    await blocks.look()
    assert chain.read == [10 + count]
    assert (blocks.head, blocks.rewinds) == (10 + count, 0)


async def test_what_was_read_again_stays_read(chain):
    blocks = await follower(chain)
    chain.grow(10)
    await blocks.look(idle=True)
    blocks.doubtful = range(blocks.newest_final + 1, blocks.doubtful.stop)
    chain.grow(10)
    await blocks.look(idle=True)
    assert blocks.doubtful == range(18, 30)


async def test_blocks_with_an_event_are_read_and_then_all_that_follow(chain):
    blocks = await follower(chain)
    chain.grow(2)
    chain.grow(1, 10, paid())
    chain.grow()
    assert await blocks.look(idle=True)
    assert chain.read == [10, 11, 12, 13]
    assert [event.ref for event in blocks.evidence.fresh] == ["a"]
    chain.grow(2)
    await blocks.look(idle=True)
    assert chain.read[4:] == [14, 15]
    assert not blocks.doubtful


async def test_blocks_wait_for_a_look_that_asks_for_their_events(chain):
    blocks = await follower(chain)
    chain.grow(1, 10, paid())
    chain.unasked = True
    assert not await blocks.look(idle=True)
    assert (blocks.head, chain.read) == (9, [])
    chain.unasked = False
    assert await blocks.look(idle=True)
    assert [event.ref for event in blocks.evidence.fresh] == ["a"]


async def test_replaced_blocks_are_noticed_by_their_parent_without_being_waited_for(chain):
    blocks = await follower(chain)
    chain.cut(9)
    chain.grow(2)
    await blocks.look(idle=True)
    assert (blocks.head, blocks.rewinds) == (10, 1)
    assert chain.read == [10, 9, 9, 10]


async def test_a_chain_that_is_shorter_is_followed_back_without_being_waited_for(chain):
    blocks = await follower(chain)
    chain.grow(3)
    await blocks.look()
    chain.cut(11)
    assert await blocks.look(idle=True)
    assert (blocks.head, blocks.rewinds) == (10, 1)


async def test_of_what_blocks_that_were_not_read_may_replace_the_hash_is_asked_for(chain):
    blocks = await follower(chain)
    chain.cut(9)
    chain.grow(5)
    await blocks.look(idle=True)
    assert await blocks.hash_of(9) == chain.views[9].hash
    assert chain.read == [9]


async def test_all_that_was_not_read_is_read_once_it_may_be_replaced(chain):
    blocks = await follower(chain)
    chain.grow(8)
    await blocks.look(idle=True)
    chain.cut(14)
    chain.grow(1, 10, paid("moved"), mined())
    chain.grow(5)
    chain.read.clear()
    assert await blocks.look()
    assert (blocks.head, blocks.rewinds) == (19, 1)
    assert [event.ref for event in blocks.evidence.fresh] == ["moved"]
    assert blocks.evidence.mined.keys() == {"0xours"}
    assert chain.read == [18, 17, *range(8, 20)]


async def test_event_whose_log_was_late_is_found_when_its_block_is_final(shop):
    payment, option = await coin(shop)
    await shop.turn()
    shop.lab.node.changes["eth_getLogs"] = reply([])
    tx_hash = await sent(shop, option)
    # nothing else tells of it: its block is not read
    await shop.turn()
    assert await shop.status(payment) == "requires_action"
    del shop.lab.node.changes["eth_getLogs"]
    await shop.mine(3)
    assert await shop.status(payment) == "requires_action"
    shop.lab.clock.advance(10)
    await shop.turn(2)
    ended = await shop.now(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)
    await shop.check(ended)


async def test_event_of_a_block_that_replaced_one_unnoticed_is_found(shop):
    payment, option = await coin(shop)
    await shop.turn()
    shop.lab.node.changes["eth_getLogs"] = reply([])
    tx_hash = await sent(shop, option)
    await shop.turn()
    await shop.lab.reorg(1)
    del shop.lab.node.changes["eth_getLogs"]
    await shop.lab.mine(5)
    await shop.turn()
    shop.lab.clock.advance(10)
    await shop.turn(3)
    ended = await shop.now(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)
    await shop.check(ended)
