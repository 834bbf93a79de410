"""Test that a payment left unpaid by its transaction is retried, whatever fails at that moment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from florin_sandbox.devnet.evm import DEVNET
from florin_server.money.settlement.store import chain_txs

from tests.support.evm_lab import CHAIN, MERCHANT, PRICE, make_buyer, make_refusal
from tests.support.settler_lab import TURNS_MAX, SettlementHarness, open_settlement_harness

WALLET = make_buyer(7)
SAFE = bytes.fromhex("5a" * 20)


@pytest.fixture
async def shop(tmp_path):
    async with open_settlement_harness(tmp_path) as running:
        yield running


async def failing(shop: SettlementHarness) -> Any:
    """Send a payment to blocks in which the buyer has no money."""
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=1)
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    assert len(await shop.transactions()) == 1
    await spend(shop, WALLET)
    return payment


async def spend(shop: SettlementHarness, wallet: LocalAccount) -> None:
    """Move all of a buyer's money elsewhere."""
    held = await shop.lab.balance(wallet.address)
    data = bytes.fromhex("a9059cbb") + SAFE.rjust(32, b"\0") + held.to_bytes(32, "big")
    token = DEVNET.token.address
    await shop.lab.send(key=bytes(wallet.key), to=token, data=data)


async def test_failed_item_is_retried_after_the_node_recovers(shop):
    payment = await failing(shop)
    shop.lab.node.changes["eth_call"] = make_refusal(-32005, "too many requests")

    async def over() -> bool:
        return not await shop.transactions()

    await shop.mine_until(over)
    assert await shop.status(payment) == "processing"
    shop.lab.node.changes.clear()
    await shop.lab.send_tokens(WALLET.address, PRICE)
    shop.lab.clock.advance(10)
    assert (await shop.run_to_end(payment)).status == "succeeded"
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_an_item_that_failed_is_tried_again_after_a_restart_at_that_moment(shop, monkeypatch):
    payment = await failing(shop)
    event = asyncio.Event()

    async def silence(*_: Any) -> None:
        event.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as node:
        # the call after the end is committed is never answered
        node.setattr(shop.lab.rail.observer, "find_unpayable_reason", silence)
        task = asyncio.create_task(event.wait())
        for _ in range(TURNS_MAX):
            mining = asyncio.create_task(shop.mine())
            await asyncio.wait({mining, task}, return_when=asyncio.FIRST_COMPLETED)
            if event.is_set():
                break
        assert event.is_set()
        mining.cancel()
        assert await shop.transactions() == []
        await shop.stop()
    await shop.restart()
    await shop.lab.send_tokens(WALLET.address, PRICE)
    shop.lab.clock.advance(10)
    assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_a_payment_of_another_transaction_is_left_where_it_is(shop):
    await failing(shop)
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=9)
    other = await shop.create_processing_payment(make_buyer(8))
    await shop.turn()
    first, second = await shop.transactions()

    async def over() -> bool:
        return first.id not in {item.id for item in await shop.transactions()}

    await shop.mine_until(over)
    # no node has shown it yet, but it is pending
    (left,) = await shop.transactions()
    assert (left.id, left.item_ids) == (second.id, (other.id,))
    unsettled = await shop.store.read(chain_txs.list_unsettled(CHAIN))
    assert {item.payment.id: item.failures for item in unsettled}[other.id] == 0
    # and it is not sent in another transaction
    shop.lab.clock.advance(60)
    await shop.turn(2)
    assert [item.id for item in await shop.transactions()] == [second.id]
    assert (await shop.run_to_end(other)).status == "succeeded"


async def test_a_payment_that_waits_for_its_time_is_due_when_it_was(shop):
    """The end of other payments' transactions does not change that."""
    await failing(shop)
    poor = make_buyer(9)
    # a buyer without other pending payments is not checked a second time
    remaining = {(await shop.create_processing_payment(poor)).id for _ in range(2)}
    await spend(shop, poor)
    await shop.turn()
    due_us = shop.lab.clock.now_us() + 1_000_000

    async def over() -> bool:
        return not await shop.transactions()

    await shop.mine_until(over)
    due = await shop.store.read(chain_txs.list_waiting(CHAIN, 9, due_us))
    assert {item.payment.id for item in due} == remaining
