"""Test that a payment settled by others before its confirm is bound when final, not before."""

from __future__ import annotations

import logging

import pytest
from florin_server.db import installation
from florin_server.money.payments.service.confirm import confirm
from florin_server.money.settlement.worker import missed_blocks

from tests.support.evm_lab import CHAIN, PRICE, make_refusal
from tests.support.settler_lab import BUYER, MERCHANT, open_settlement_harness
from tests.support.stranger_steps import make_unconfirmed, settle_directly


@pytest.fixture
async def shop(tmp_path):
    async with open_settlement_harness(tmp_path) as running:
        yield running


async def read_up_to(shop) -> int:
    block, _ = await shop.store.read(installation.find_followed_block(CHAIN))
    return block


async def test_it_is_bound_once_the_event_is_final(shop):
    payment, option, output = await make_unconfirmed(shop)
    tx_hash = await settle_directly(shop, option, output)
    await shop.turn(2)
    assert await shop.status(payment) == "requires_action"
    await shop.mine()
    assert await shop.status(payment) == "requires_action"
    await shop.mine()
    ended = await shop.get_payment(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)
    assert shop.settler.health().problem == ""
    await shop.check(ended)
    assert await shop.transactions() == []
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_an_event_whose_block_is_replaced_binds_nothing(shop):
    payment, option, output = await make_unconfirmed(shop)
    tx_hash = await settle_directly(shop, option, output)
    await shop.turn(2)
    await shop.lab.reorg(1, tx_hash)
    await shop.mine(5)
    assert await shop.status(payment) == "requires_action"
    await confirm(shop.app, BUYER, payment.id, option.id, [[output]])
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id != tx_hash) == ("succeeded", True)
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_an_event_that_comes_back_in_another_block_counts_from_there(shop):
    payment, option, output = await make_unconfirmed(shop)
    tx_hash = await settle_directly(shop, option, output)
    await shop.turn(2)
    await shop.lab.mine()
    await shop.lab.reorg(2)
    await shop.turn(2)
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_a_restart_in_between_loses_nothing(shop):
    payment, option, output = await make_unconfirmed(shop)
    tx_hash = await settle_directly(shop, option, output)
    await shop.mine()
    assert await shop.status(payment) == "requires_action"
    await shop.restart()
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)


# while Florin was down


async def down(shop, option, output, blocks: int = 3) -> str:
    """Settle it from outside while Florin does not follow the chain."""
    shop.lab.clock.advance(11)
    await shop.mine()
    await shop.stop()
    tx_hash = await settle_directly(shop, option, output)
    await shop.lab.mine(blocks)
    return str(tx_hash)


async def test_direct_settlement_during_downtime_is_detected_at_startup(shop):
    payment, option, output = await make_unconfirmed(shop)
    tx_hash = await down(shop, option, output)
    await shop.restart()
    await shop.turn(2)
    ended = await shop.get_payment(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_it_is_bound_only_once_it_is_final(shop):
    payment, option, output = await make_unconfirmed(shop)
    await down(shop, option, output, blocks=0)
    await shop.restart()
    await shop.turn(2)
    assert await shop.status(payment) == "requires_action"
    await shop.mine(3)
    assert await shop.status(payment) == "succeeded"


async def test_direct_settlement_not_final_at_shutdown_is_detected_after_restart(shop):
    payment, option, output = await make_unconfirmed(shop)
    tx_hash = await settle_directly(shop, option, output)
    shop.lab.clock.advance(61)
    await shop.turn()
    # the waiting payment is read once more, however long it waits
    receipt = await shop.lab.control.call("eth_getTransactionReceipt", tx_hash)
    assert await read_up_to(shop) == int(receipt["blockNumber"], 16) - 1
    await shop.stop()
    await shop.lab.mine(3)
    await shop.restart()
    await shop.turn(2)
    assert (await shop.get_payment(payment)).tx_id == tx_hash


async def test_a_node_that_refuses_keeps_nothing_else_from_being_settled(shop):
    payment, option, output = await make_unconfirmed(shop)
    tx_hash = await down(shop, option, output)
    shop.lab.node.changes = {"eth_getLogs": make_refusal(-32005, "too many blocks")}
    await shop.restart()
    assert "are not read yet" in shop.settler.health().problem
    shop.lab.node.changes = {}
    shop.lab.clock.advance(11)
    await shop.turn(2)
    assert (await shop.get_payment(payment)).tx_id == tx_hash
    assert shop.settler.health().problem == ""


@pytest.mark.parametrize("over", [False, True])
async def test_only_offered_references_are_searched_after_a_long_downtime(
    shop, caplog, monkeypatch, over
):
    monkeypatch.setattr(missed_blocks, "_BLOCKS_MAX", 5)
    payment, option, output = await make_unconfirmed(shop)
    tx_hash = await down(shop, option, output, blocks=9)
    if over:
        shop.lab.clock.advance(1000)
    with caplog.at_level(logging.WARNING):
        await shop.restart()
    assert "Florin reads only transfers of offered assets" in caplog.text
    await shop.turn(2)
    result = await shop.get_payment(payment)
    if over:
        assert result.with_expiry(shop.lab.clock.now_us()).status == "expired"
        assert f"payment {payment.id} was paid late, or twice, by {tx_hash}" in caplog.text
    else:
        assert (result.status, result.tx_id) == ("succeeded", tx_hash)


async def test_many_missed_blocks_are_read_in_parts(shop, monkeypatch):
    monkeypatch.setattr(missed_blocks, "_BLOCKS_PER_CALL", 4)
    payment, option, output = await make_unconfirmed(shop)
    tx_hash = await down(shop, option, output, blocks=9)
    shop.lab.node.methods.clear()
    await shop.restart()
    for _ in range(4):
        shop.lab.clock.advance(11)
        await shop.turn()
    assert (await shop.get_payment(payment)).tx_id == tx_hash
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
