"""Test how the settler forwards what arrives at payments' addresses, whatever happens meanwhile."""

from __future__ import annotations

import logging

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.evm.chain import STATES_MAX
from florin_server.domain.payments.payment import Payment
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.money.payments.service.addresses import open_addresses
from florin_server.money.payments.service.create import NewPayment, create
from florin_server.rails.evm.paying.terms import ZERO_ADDRESS

from tests.support.payment_addresses import COIN_ASSET, STRANGER, transfer
from tests.support.settled_addresses import (
    FORWARDER,
    PRICE,
    find_transaction,
    list_deposits,
    look,
    open_address,
    run_to_end,
)
from tests.support.settlement_harness import BUYER, SHOP, open_settlement_harness


@pytest.fixture
async def shop(tmp_path):
    async with open_settlement_harness(tmp_path, forwarder=FORWARDER) as running:
        yield running


async def test_deposit_is_shown_before_it_is_final_and_once(shop):
    payment, address = await open_address(shop)
    await shop.lab.send_tokens(address, 400_000)
    await look(shop)
    assert await list_deposits(shop, payment) == [(400_000, False)]
    await look(shop, 6)
    assert await list_deposits(shop, payment) == [(400_000, True)]
    await shop.restart()
    await shop.lab.send_tokens(address, PRICE - 400_000)
    ended = await run_to_end(shop, payment)
    assert ended.status == "succeeded"
    await look(shop, 4)
    assert await list_deposits(shop, payment) == [(400_000, True), (PRICE - 400_000, True)]


async def test_restart_between_journal_and_send_forwards_the_same_bytes(shop):
    payment, address = await open_address(shop)
    await shop.lab.send_tokens(address, PRICE)
    shop.lab.node.lost_methods = frozenset({"eth_sendRawTransaction"})
    shop.lab.clock.advance(1.1)
    await shop.turn()
    (signed,) = await shop.transactions()
    assert (signed.state, signed.item_ids) == (TxState.SIGNED, (payment.id,))
    shop.lab.node.lost_methods = frozenset()
    await shop.restart()
    ended = await run_to_end(shop, payment)
    assert (ended.status, ended.tx_id) == ("succeeded", signed.hash)


async def test_deposits_of_a_pause_are_found_after_a_restart(shop):
    payment, address = await open_address(shop)
    await look(shop)
    await shop.stop()
    await shop.lab.send_tokens(address, PRICE)
    await shop.lab.mine(6)
    await shop.begin()
    assert (await run_to_end(shop, payment)).status == "succeeded"


async def test_coin_of_a_pause_is_found_after_a_restart_on_a_node_without_old_states(tmp_path):
    coin = {"name": "Ether", "symbol": "ETH"}
    async with open_settlement_harness(tmp_path, forwarder=FORWARDER, coin=coin) as shop:
        now_us = shop.lab.clock.now_us()
        order = NewPayment(
            f"caip19/{COIN_ASSET}", str(10**18), expires_at=now_us // 1_000_000 + 900
        )
        created = await create(shop.app, BUYER, SHOP, order, lambda _: b"")
        assert isinstance(created, Payment)
        (opened,) = await open_addresses(shop.app, BUYER, created.id, [COIN_ASSET])
        address = opened.opened.address.address
        await shop.lab.give_gas(STRANGER.address, 10)
        await transfer(shop.lab, STRANGER, address, 400_000, ZERO_ADDRESS)
        await look(shop, 6)
        assert await list_deposits(shop, created) == [(400_000, True)]
        await shop.stop()
        await shop.lab.mine(STATES_MAX + 8)
        await transfer(shop.lab, STRANGER, address, 10**18 - 400_000, ZERO_ADDRESS)
        await shop.begin()
        assert (await run_to_end(shop, created)).status == "succeeded"
        values = [value for value, _ in await list_deposits(shop, created)]
        assert values == [400_000, 10**18 - 400_000]


async def test_deposit_that_a_reorganization_removes_is_forgotten(shop):
    payment, address = await open_address(shop)
    await shop.lab.send_tokens(address, 400_000)
    await look(shop)
    assert await list_deposits(shop, payment) == [(400_000, False)]
    await shop.lab.reorg(2, await find_transaction(shop, payment))
    await look(shop, 5)
    assert await list_deposits(shop, payment) == []
    assert await shop.status(payment) == "requires_action"


async def test_payment_whose_deposit_vanished_fails_at_its_end(shop):
    payment, address = await open_address(shop)
    await shop.lab.send_tokens(address, PRICE)
    shop.lab.node.lost_methods = frozenset({"eth_sendRawTransaction"})
    shop.lab.clock.advance(1.1)
    await shop.turn()
    assert await shop.status(payment) == "processing"
    await shop.lab.reorg(1, await find_transaction(shop, payment))
    shop.lab.node.lost_methods = frozenset()
    await look(shop, 8)
    assert await shop.status(payment) == "processing"
    shop.lab.clock.advance(1_300)
    ended = await run_to_end(shop, payment)
    assert (ended.status, ended.tx_id) == ("failed", None)
    assert "not forwarded before its end" in (ended.failure_detail or "")


async def test_node_that_does_not_answer_stops_no_other_payment(shop, caplog):
    payment, address = await open_address(shop)
    await shop.lab.send_tokens(address, PRICE)
    shop.lab.node.changes["eth_getLogs"] = _refuse
    with caplog.at_level(logging.WARNING):
        await look(shop)
    assert "deposits are not read yet" in caplog.text
    assert await shop.status(payment) == "requires_action"
    shop.lab.node.changes.clear()
    shop.lab.clock.advance(6)
    assert (await run_to_end(shop, payment)).status == "succeeded"


def _refuse(_question, answer):
    return {"id": answer["id"], "error": {"code": -32000, "message": "not now"}}


async def test_many_addresses_are_forwarded_in_one_transaction(shop):
    opened = [await open_address(shop) for _ in range(5)]
    for _, address in opened:
        await shop.lab.send_tokens(address, PRICE)
    await shop.lab.pause()
    shop.lab.clock.advance(1.1)
    await shop.turn()
    (transaction,) = await shop.transactions()
    assert sorted(transaction.item_ids) == sorted(payment.id for payment, _ in opened)
    for payment, _ in opened:
        assert (await run_to_end(shop, payment)).status == "succeeded"


async def test_chain_without_the_forwarder_gives_out_no_address(shop):
    shop.lab.node.changes["eth_call"] = _answer_nothing
    problems = await shop.lab.rail.list_problems()
    assert "gives payments other addresses than Florin computes" in " ".join(problems)
    assert shop.lab.rail.addresses is None
    shop.lab.node.changes.clear()
    assert await shop.lab.rail.list_problems() == ()
    assert shop.lab.rail.addresses is not None


def _answer_nothing(params, answer):
    if params[0].get("to") == DEVNET.forwarder:
        return {"id": answer["id"], "result": "0x"}
    return answer
