"""Test what a settler does in one turn, and what it leaves to a later turn."""

from __future__ import annotations

import pytest
from florin_server.money.settlement.worker.direct_payments import DirectPayments
from florin_server.rails.types import RailUnavailable

from tests.support.booked_gas import SECOND
from tests.support.evm_harness import make_buyer
from tests.support.settlement_harness import CHAIN, open_settlement_harness

SEND = "eth_sendRawTransaction"
WALLET = make_buyer(77)


@pytest.fixture
async def shop(tmp_path):
    async with open_settlement_harness(tmp_path) as running:
        yield running


async def test_nothing_is_sent_before_the_books_begin(shop):
    """The first balance is compared with what is booked from then on."""
    shop.app.chains[CHAIN].has_opening_balances = False
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn(2)
    assert shop.lab.node.methods.count(SEND) == 0
    shop.app.chains[CHAIN].has_opening_balances = True
    await shop.turn()
    assert shop.lab.node.methods.count(SEND) == 1
    assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_nothing_is_sent_while_blocks_are_not_understood(shop, monkeypatch):
    """Waiting payments may already be paid, and none of them lapses soon."""

    async def away(*_):
        raise RailUnavailable("the node is away")

    payment = await shop.create_processing_payment(WALLET)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(DirectPayments, "adopt", away)
        await shop.mine()
        assert shop.lab.node.methods.count(SEND) == 0
    assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_a_new_payment_is_left_to_the_blocks_until_the_comparison_after_next(
    shop, monkeypatch
):
    """A busy service has many of them, and nearly all have ended by then."""
    requests: list[list[str]] = []
    observer = shop.lab.rail.observer
    find = observer.find_settlement_events

    async def record_and_find(items):
        requests.append([item.payment.id for item in items])
        return await find(items)

    monkeypatch.setattr(
        type(observer), "find_settlement_events", lambda _, items: record_and_find(items)
    )
    await shop.lab.pause()
    shop.lab.clock.advance(10)
    await shop.turn()
    old = await shop.create_processing_payment(make_buyer(5))
    shop.lab.clock.advance(9)
    new = await shop.create_processing_payment(make_buyer(6))
    result: list[set[str]] = []
    for _ in range(3):
        requests.clear()
        await shop.turn()
        result.append({text for ids in requests for text in ids})
        shop.lab.clock.advance(10)
    assert result == [set(), {old.id}, {old.id, new.id}]


async def test_a_key_that_comes_back_is_picked_up_where_it_was_left(tmp_path, monkeypatch):
    async with open_settlement_harness(tmp_path, more=[SECOND]) as shop:
        first, second = shop.settler.context.senders.queues
        started: list[str] = []
        start = type(first).start

        async def record_start(queue):
            started.append(queue.key.address)
            await start(queue)

        monkeypatch.setattr(type(first), "start", record_start)
        shop.lab.clock.advance(9)
        await shop.turn()
        assert started == []
        await first.key.release_lease()
        shop.lab.clock.advance(9)
        await shop.turn()
        assert started == [first.key.address, second.key.address]
