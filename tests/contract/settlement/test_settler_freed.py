"""A payment whose transaction ended without it is tried again, whatever happens at that moment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from florin_server.devnet.evm import DEVNET
from florin_server.store.settlement import chain_txs

from tests.support.evm_lab import CHAIN, MERCHANT, PRICE, buyer, refuse
from tests.support.settler_lab import TURNS_MAX, Works, works

WALLET = buyer(7)
SAFE = bytes.fromhex("5a" * 20)


@pytest.fixture
async def shop(tmp_path):
    async with works(tmp_path) as running:
        yield running


async def failing(shop: Works) -> Any:
    """A payment whose transaction is on its way to blocks in which the buyer has no money."""
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=1)
    payment = await shop.accepted(WALLET)
    await shop.turn()
    assert len(await shop.transactions()) == 1
    await spend(shop, WALLET)
    return payment


async def spend(shop: Works, wallet: LocalAccount) -> None:
    """A buyer sends all that it has elsewhere."""
    held = await shop.lab.balance(wallet.address)
    data = bytes.fromhex("a9059cbb") + SAFE.rjust(32, b"\0") + held.to_bytes(32, "big")
    token = DEVNET.token.address
    await shop.lab.send(key=bytes(wallet.key), to=token, data=data)


async def test_an_item_that_failed_is_tried_again_though_the_node_told_nothing_then(shop):
    payment = await failing(shop)
    shop.lab.node.changes["eth_call"] = refuse(-32005, "too many requests")

    async def over() -> bool:
        return not await shop.transactions()

    await shop.mine_until(over)
    assert await shop.status(payment) == "processing"
    shop.lab.node.changes.clear()
    await shop.lab.send_tokens(WALLET.address, PRICE)
    shop.lab.clock.advance(10)
    assert (await shop.end(payment)).status == "succeeded"
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_an_item_that_failed_is_tried_again_after_a_restart_at_that_moment(shop, monkeypatch):
    payment = await failing(shop)
    asked = asyncio.Event()

    async def silence(*_: Any) -> None:
        asked.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as node:
        # what is asked once the end is committed is never answered
        node.setattr(shop.lab.rail.observer, "unpayable_reason", silence)
        heard = asyncio.create_task(asked.wait())
        for _ in range(TURNS_MAX):
            mining = asyncio.create_task(shop.mine())
            await asyncio.wait({mining, heard}, return_when=asyncio.FIRST_COMPLETED)
            if asked.is_set():
                break
        assert asked.is_set()
        mining.cancel()
        assert await shop.transactions() == []
        await shop.stop()
    await shop.restart()
    await shop.lab.send_tokens(WALLET.address, PRICE)
    shop.lab.clock.advance(10)
    assert (await shop.end(payment)).status == "succeeded"


async def test_a_payment_of_another_transaction_is_left_where_it_is(shop):
    await failing(shop)
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=9)
    other = await shop.accepted(buyer(8))
    await shop.turn()
    first, second = await shop.transactions()

    async def over() -> bool:
        return first.id not in {one.id for one in await shop.transactions()}

    await shop.mine_until(over)
    # nobody has seen it yet, and it is on its way all the same
    (left,) = await shop.transactions()
    assert (left.id, left.item_ids) == (second.id, (other.id,))
    unsettled = await shop.store.read(chain_txs.unsettled(CHAIN))
    assert {one.payment.id: one.failures for one in unsettled}[other.id] == 0
    # nor is it sent in another one
    shop.lab.clock.advance(60)
    await shop.turn(2)
    assert [one.id for one in await shop.transactions()] == [second.id]
    assert (await shop.end(other)).status == "succeeded"


async def test_a_payment_that_waits_for_its_time_is_due_when_it_was(shop):
    """Whatever becomes of the transactions of others."""
    await failing(shop)
    poor = buyer(9)
    # who has nothing else under way is not asked a second time
    others = {(await shop.accepted(poor)).id for _ in range(2)}
    await spend(shop, poor)
    await shop.turn()
    due_us = shop.lab.clock.now_us() + 1_000_000

    async def over() -> bool:
        return not await shop.transactions()

    await shop.mine_until(over)
    due = await shop.store.read(chain_txs.waiting(CHAIN, 9, due_us))
    assert {one.payment.id for one in due} == others
