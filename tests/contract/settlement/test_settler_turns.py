"""What a settler does in one turn, and what it leaves to a later one."""

from __future__ import annotations

import pytest
from florin_server.rails.types import RailUnavailable
from florin_server.workers.settlement.direct_payments import DirectPayments

from tests.support.evm_lab import buyer
from tests.support.fee_steps import SECOND
from tests.support.settler_lab import CHAIN, works

SEND = "eth_sendRawTransaction"
WALLET = buyer(77)


@pytest.fixture
async def shop(tmp_path):
    async with works(tmp_path) as running:
        yield running


async def test_nothing_is_sent_before_the_books_begin(shop):
    """What a wallet had before is compared with what is booked from then on."""
    shop.app.chains[CHAIN].books_begun = False
    payment = await shop.accepted(WALLET)
    await shop.turn(2)
    assert shop.lab.node.asked.count(SEND) == 0
    shop.app.chains[CHAIN].books_begun = True
    await shop.turn()
    assert shop.lab.node.asked.count(SEND) == 1
    assert (await shop.end(payment)).status == "succeeded"


async def test_nothing_is_sent_while_blocks_are_not_understood(shop, monkeypatch):
    """What waits may be paid already; nothing of it lapses soon."""

    async def away(*_):
        raise RailUnavailable("the node is away")

    payment = await shop.accepted(WALLET)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(DirectPayments, "adopt", away)
        await shop.mine()
        assert shop.lab.node.asked.count(SEND) == 0
    assert (await shop.end(payment)).status == "succeeded"


async def test_a_new_payment_is_left_to_the_blocks_until_the_comparison_after_next(
    shop, monkeypatch
):
    """A busy service has many of them, and nearly all are over by then."""
    asked: list[list[str]] = []
    observer = shop.lab.rail.observer
    find = observer.find

    async def found(items):
        asked.append([one.payment.id for one in items])
        return await find(items)

    monkeypatch.setattr(type(observer), "find", lambda _, items: found(items))
    await shop.lab.pause()
    shop.lab.clock.advance(10)
    await shop.turn()
    old = await shop.accepted(buyer(5))
    shop.lab.clock.advance(9)
    new = await shop.accepted(buyer(6))
    told: list[set[str]] = []
    for _ in range(3):
        asked.clear()
        await shop.turn()
        told.append({one for ids in asked for one in ids})
        shop.lab.clock.advance(10)
    assert told == [set(), {old.id}, {old.id, new.id}]


async def test_a_key_that_comes_back_is_picked_up_where_it_was_left(tmp_path, monkeypatch):
    async with works(tmp_path, more=[SECOND]) as shop:
        first, second = shop.settler.executors
        begun: list[str] = []
        start = type(first).start

        async def started(sender):
            begun.append(sender.address)
            await start(sender)

        monkeypatch.setattr(type(first), "start", started)
        shop.lab.clock.advance(9)
        await shop.turn()
        assert begun == []
        await first.give_back()
        shop.lab.clock.advance(9)
        await shop.turn()
        assert begun == [first.address, second.address]
