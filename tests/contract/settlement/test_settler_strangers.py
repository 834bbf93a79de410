"""What somebody settled before its wallet confirmed it is bound when it is final, not before."""

from __future__ import annotations

import logging

import pytest
from florin_server.flows.payments.confirm import confirm
from florin_server.store.operator import installation
from florin_server.workers.settlement import missed_blocks

from tests.support.evm_lab import CHAIN, PRICE, refuse
from tests.support.settler_lab import BUYER, MERCHANT, works
from tests.support.stranger_steps import settled, unconfirmed


@pytest.fixture
async def shop(tmp_path):
    async with works(tmp_path) as running:
        yield running


async def read_up_to(shop) -> int:
    block, _ = await shop.store.read(installation.followed(CHAIN))
    return block


async def test_it_is_bound_once_the_event_is_final(shop):
    payment, option, output = await unconfirmed(shop)
    tx_hash = await settled(shop, option, output)
    await shop.turn(2)
    assert await shop.status(payment) == "requires_action"
    await shop.mine()
    assert await shop.status(payment) == "requires_action"
    await shop.mine()
    ended = await shop.now(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)
    assert shop.settler.health().problem == ""
    await shop.check(ended)
    assert await shop.transactions() == []
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_an_event_whose_block_is_replaced_binds_nothing(shop):
    payment, option, output = await unconfirmed(shop)
    tx_hash = await settled(shop, option, output)
    await shop.turn(2)
    await shop.lab.reorg(1, tx_hash)
    await shop.mine(5)
    assert await shop.status(payment) == "requires_action"
    await confirm(shop.app, BUYER, payment.id, option.id, [[output]])
    ended = await shop.end(payment)
    assert (ended.status, ended.tx_id != tx_hash) == ("succeeded", True)
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_an_event_that_comes_back_in_another_block_counts_from_there(shop):
    payment, option, output = await unconfirmed(shop)
    tx_hash = await settled(shop, option, output)
    await shop.turn(2)
    await shop.lab.mine()
    await shop.lab.reorg(2)
    await shop.turn(2)
    ended = await shop.end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_a_restart_in_between_loses_nothing(shop):
    payment, option, output = await unconfirmed(shop)
    tx_hash = await settled(shop, option, output)
    await shop.mine()
    assert await shop.status(payment) == "requires_action"
    await shop.restart()
    ended = await shop.end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)


# while Florin was down


async def down(shop, option, output, blocks: int = 3) -> str:
    """Somebody settles it while nobody follows the chain."""
    shop.lab.clock.advance(11)
    await shop.mine()
    await shop.stop()
    tx_hash = await settled(shop, option, output)
    await shop.lab.mine(blocks)
    return str(tx_hash)


async def test_what_happened_while_florin_was_down_is_found_at_start(shop):
    payment, option, output = await unconfirmed(shop)
    tx_hash = await down(shop, option, output)
    await shop.restart()
    await shop.turn(2)
    ended = await shop.now(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_it_is_bound_only_once_it_is_final(shop):
    payment, option, output = await unconfirmed(shop)
    await down(shop, option, output, blocks=0)
    await shop.restart()
    await shop.turn(2)
    assert await shop.status(payment) == "requires_action"
    await shop.mine(3)
    assert await shop.status(payment) == "succeeded"


async def test_what_was_not_final_yet_when_florin_went_down_is_found_too(shop):
    payment, option, output = await unconfirmed(shop)
    tx_hash = await settled(shop, option, output)
    shop.lab.clock.advance(61)
    await shop.turn()
    # what waits is read once more, however long it waits
    receipt = await shop.lab.control.call("eth_getTransactionReceipt", tx_hash)
    assert await read_up_to(shop) == int(receipt["blockNumber"], 16) - 1
    await shop.stop()
    await shop.lab.mine(3)
    await shop.restart()
    await shop.turn(2)
    assert (await shop.now(payment)).tx_id == tx_hash


async def test_a_node_that_refuses_keeps_nothing_else_from_being_settled(shop):
    payment, option, output = await unconfirmed(shop)
    tx_hash = await down(shop, option, output)
    shop.lab.node.changes = {"eth_getLogs": refuse(-32005, "too many blocks")}
    await shop.restart()
    assert "are not read yet" in shop.settler.health().problem
    shop.lab.node.changes = {}
    shop.lab.clock.advance(11)
    await shop.turn(2)
    assert (await shop.now(payment)).tx_id == tx_hash
    assert shop.settler.health().problem == ""


@pytest.mark.parametrize("over", [False, True])
async def test_of_what_is_too_long_ago_only_what_was_offered_is_asked_for(
    shop, caplog, monkeypatch, over
):
    monkeypatch.setattr(missed_blocks, "_BLOCKS_MAX", 5)
    payment, option, output = await unconfirmed(shop)
    tx_hash = await down(shop, option, output, blocks=9)
    if over:
        shop.lab.clock.advance(1000)
    with caplog.at_level(logging.WARNING):
        await shop.restart()
    assert "only what was offered is asked for" in caplog.text
    await shop.turn(2)
    found = await shop.now(payment)
    if over:
        assert found.at(shop.lab.clock.now_us()).status == "expired"
        assert f"payment {payment.id} was paid late, or twice, by {tx_hash}" in caplog.text
    else:
        assert (found.status, found.tx_id) == ("succeeded", tx_hash)


async def test_many_blocks_are_read_one_part_after_the_other(shop, monkeypatch):
    monkeypatch.setattr(missed_blocks, "_BLOCKS_A_CALL", 4)
    payment, option, output = await unconfirmed(shop)
    tx_hash = await down(shop, option, output, blocks=9)
    shop.lab.node.asked.clear()
    await shop.restart()
    for _ in range(4):
        shop.lab.clock.advance(11)
        await shop.turn()
    assert (await shop.now(payment)).tx_id == tx_hash
    head = int(await shop.lab.control.call("eth_blockNumber"), 16)
    shop.lab.clock.advance(61)
    await shop.turn()
    assert await read_up_to(shop) == head


async def test_where_a_chain_is_read_to_is_not_written_down_for_every_block(shop):
    shop.lab.clock.advance(61)
    await shop.mine()
    seen = await read_up_to(shop)
    for _ in range(4):
        shop.lab.clock.advance(11)
        await shop.mine()
        assert await read_up_to(shop) == seen
    shop.lab.clock.advance(20)
    await shop.mine()
    assert await read_up_to(shop) == seen + 5
