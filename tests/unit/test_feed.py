"""Watchers: what they see of a payment, and what they leave behind."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from florin_server.clock import TestClock
from florin_server.domain.payments.payment import Payment, Status
from florin_server.feed import Changes, FeedClosed, Hub

NEW = Payment(
    id="pay_1",
    partner_id="p",
    merchant_id="m",
    live=False,
    status=Status.REQUIRES_ACTION,
    version=0,
    unit="iso4217/USD",
    value=1,
    reference_id="",
    success_url=None,
    error_url=None,
    salt=b"",
    created_at_us=0,
    updated_at_us=0,
    expires_at=0,
)
BUSY = replace(NEW, status=Status.PROCESSING, version=1)
PAID = replace(NEW, status=Status.SUCCEEDED, version=2)


class Shelf:
    """A store of payments; `gate` holds reads up."""

    def __init__(self, *payments: Payment) -> None:
        self.payments = {payment.id: payment for payment in payments}
        self.clock = TestClock(0)
        self.gate = asyncio.Event()
        self.gate.set()
        self.swept: list[int] = []
        self.hub = Hub(self.read, self.newer, self.clock)

    async def read(self, payment_id):
        found = self.payments.get(payment_id)
        await self.gate.wait()
        return found

    async def newer(self, seen):
        self.swept.append(len(seen))
        return [self.payments[i] for i, version in seen if self.payments[i].version > version]

    def change(self, payment: Payment, *, hint: bool = True) -> None:
        self.payments[payment.id] = payment
        if hint:
            self.hub.publish(payment)


async def rest() -> None:
    """Lets everything run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def leaves_nothing(shelf: Shelf) -> bool:
    """True if a sweep looks for nobody any more."""
    shelf.swept.clear()
    sweeps = asyncio.create_task(shelf.hub.sweep())
    await rest()
    shelf.clock.advance(1)
    await rest()
    ended = sweeps.done()
    sweeps.cancel()
    return not ended and shelf.swept == []


async def versions(hub: Hub, after: int = -1) -> list[int]:
    return [payment.version async for payment in hub.watch("pay_1", after)]


async def test_only_what_a_watcher_has_not_seen_is_behind():
    shelf = Shelf(BUSY)
    assert shelf.hub.behind({"pay_1": 9}) == {}
    watching = asyncio.create_task(versions(shelf.hub))
    await rest()
    told = {"pay_1": 1, "pay_2": 9}
    assert shelf.hub.behind(told) == {}
    assert shelf.hub.behind({**told, "pay_1": 2}) == {"pay_1": 2}
    shelf.hub.publish(PAID)
    # it is there, though nobody took it yet
    assert shelf.hub.behind({"pay_1": 2}) == {}
    assert await watching == [1, 2]


async def test_what_was_told_is_read_and_not_believed():
    shelf = Shelf(NEW)
    watching = asyncio.create_task(versions(shelf.hub))
    await rest()
    await shelf.hub.read_again({"pay_1": 99, "pay_2": 1})
    shelf.change(PAID, hint=False)
    await shelf.hub.read_again({"pay_1": 1})
    assert await watching == [0, 2]


async def test_the_snapshot_comes_first_then_every_change_until_the_end():
    shelf = Shelf(NEW)
    states = shelf.hub.watch("pay_1")
    assert await anext(states) == NEW
    following = asyncio.create_task(anext(states))
    await rest()
    assert not following.done()
    shelf.change(BUSY)
    assert await following == BUSY
    shelf.change(PAID)
    assert [payment async for payment in states] == [PAID]
    assert shelf.hub.watchers == 0


async def test_a_final_payment_is_told_once():
    assert await versions(Shelf(PAID).hub) == [2]


@pytest.mark.parametrize(("after", "told"), [(-1, [2]), (0, [2]), (1, [2]), (2, []), (9, [])])
async def test_only_versions_above_the_one_that_is_known(after, told):
    assert await versions(Shelf(PAID).hub, after) == told


async def test_an_unknown_payment_ends_at_once():
    shelf = Shelf()
    assert await versions(shelf.hub) == []
    assert shelf.hub.watchers == 0


async def test_hints_that_repeat_or_come_late_are_not_told():
    shelf = Shelf(NEW)
    task = asyncio.create_task(versions(shelf.hub))
    await rest()
    for payment in (NEW, BUSY, BUSY, NEW, BUSY):
        shelf.hub.publish(payment)
        await rest()
    shelf.change(PAID)
    assert await task == [0, 1, 2]


async def test_a_change_while_the_snapshot_is_read_is_not_lost():
    shelf = Shelf(NEW)
    shelf.gate.clear()
    task = asyncio.create_task(versions(shelf.hub))
    await rest()
    shelf.change(BUSY)
    shelf.change(PAID)
    shelf.gate.set()
    assert await task == [0, 2]


async def test_a_snapshot_newer_than_a_hint_before_it():
    shelf = Shelf(BUSY)
    shelf.gate.clear()
    task = asyncio.create_task(versions(shelf.hub))
    await rest()
    shelf.hub.publish(NEW)
    shelf.gate.set()
    await rest()
    shelf.change(PAID)
    assert await task == [1, 2]


async def test_a_slow_reader_skips_states_and_delays_nobody():
    shelf = Shelf(NEW)
    quick = asyncio.create_task(versions(shelf.hub))
    slow = shelf.hub.watch("pay_1")
    assert (await anext(slow)).version == 0
    await rest()
    for version in range(1, 100):
        shelf.change(replace(BUSY, version=version))
        await rest()
    shelf.change(replace(PAID, version=100))
    assert await quick == list(range(101))
    assert [payment.version async for payment in slow] == [100]


async def test_a_lost_hint_is_found_by_the_sweep():
    shelf = Shelf(NEW)
    sweep = asyncio.create_task(shelf.hub.sweep())
    task = asyncio.create_task(versions(shelf.hub))
    await rest()
    shelf.change(BUSY, hint=False)
    shelf.clock.advance(1)
    await rest()
    shelf.change(PAID, hint=False)
    await rest()
    assert not task.done()
    shelf.clock.advance(1)
    assert await asyncio.wait_for(task, 5) == [0, 1, 2]
    sweep.cancel()


async def test_the_sweep_asks_in_bounded_steps_and_for_each_payment_once():
    payments = [replace(NEW, id=f"pay_{n}") for n in range(1_100)]
    shelf = Shelf(*payments)
    sweep = asyncio.create_task(shelf.hub.sweep())
    watches = [shelf.hub.watch(payment.id) for payment in (*payments, *payments)]
    for watch in watches:
        assert (await anext(watch)).version == 0
    assert shelf.hub.watchers == 2_200
    await rest()
    shelf.clock.advance(1)
    await rest()
    assert shelf.swept == [500, 500, 100]
    sweep.cancel()
    for watch in watches:
        await watch.aclose()
    assert shelf.hub.watchers == 0


async def test_nobody_watches_and_nothing_is_asked():
    shelf = Shelf(NEW)
    sweep = asyncio.create_task(shelf.hub.sweep())
    await rest()
    shelf.clock.advance(5)
    await rest()
    assert shelf.swept == []
    sweep.cancel()


async def test_closing_ends_every_stream():
    shelf = Shelf(NEW)
    waiting = asyncio.create_task(versions(shelf.hub))
    between = shelf.hub.watch("pay_1")
    assert await anext(between) == NEW
    await rest()
    shelf.hub.close()
    with pytest.raises(FeedClosed) as ended:
        await waiting
    assert ended.value.version == 0
    with pytest.raises(FeedClosed):
        await anext(between)
    # later watchers get the snapshot and no more
    late = shelf.hub.watch("pay_1")
    assert await anext(late) == NEW
    with pytest.raises(FeedClosed):
        await anext(late)
    with pytest.raises(FeedClosed) as silent:
        await versions(shelf.hub, after=7)
    assert silent.value.version == 7
    shelf.change(PAID, hint=False)
    assert await versions(shelf.hub) == [2]
    assert shelf.hub.watchers == 0


@pytest.mark.parametrize("moment", ["reading", "waiting"])
async def test_a_watcher_that_leaves_leaves_nothing(moment):
    shelf = Shelf(NEW)
    if moment == "reading":
        shelf.gate.clear()
    tasks = [asyncio.create_task(versions(shelf.hub)) for _ in range(3)]
    await rest()
    assert shelf.hub.watchers == 3
    tasks[0].cancel()
    await rest()
    assert shelf.hub.watchers == 2
    shelf.gate.set()
    shelf.change(PAID)
    assert (await tasks[1])[-1] == (await tasks[2])[-1] == 2
    assert shelf.hub.watchers == 0
    assert await leaves_nothing(shelf)


async def test_a_read_that_fails_leaves_nothing():
    shelf = Shelf(NEW)

    async def broken(_payment_id):
        raise OSError("the disk is gone")

    shelf.hub = Hub(broken, shelf.newer, shelf.clock)
    with pytest.raises(OSError, match="disk"):
        await versions(shelf.hub)
    assert await leaves_nothing(shelf)


# what has no version


class Drawer:
    """Values by id, whose changes may be told or not."""

    def __init__(self, **values: str) -> None:
        self.values: dict[str, str] = values
        self.clock = TestClock(0)
        self.changes = Changes()
        self.reads = 0

    def follow(self, name: str):
        async def read() -> str | None:
            self.reads += 1
            return self.values.get(name)

        return self.changes.follow(name, read, lambda value: value.isupper())

    async def marks(self, ids):
        return {one: self.values[one] for one in ids if one in self.values}

    def change(self, name: str, value: str, *, hint: bool = True) -> None:
        self.values[name] = value
        if hint:
            self.changes.ring(name)


async def test_each_other_value_is_told_once_until_a_final_one():
    drawer = Drawer(a="new")
    states = drawer.follow("a")
    assert await anext(states) == "new"
    following = asyncio.create_task(anext(states))
    # nothing that a follower would see
    drawer.changes.ring("a", "b")
    await rest()
    assert not following.done()
    drawer.change("a", "sent")
    assert await following == "sent"
    # a slow reader skips what is over already
    drawer.change("a", "new")
    drawer.change("a", "DONE")
    assert [value async for value in states] == ["DONE"]
    assert drawer.changes.followers == 0


async def test_what_is_not_there_or_over_is_not_followed():
    drawer = Drawer(a="DONE")
    assert [value async for value in drawer.follow("a")] == ["DONE"]
    assert [value async for value in drawer.follow("b")] == []
    assert drawer.changes.followers == 0


async def test_a_sweep_finds_what_nobody_rang_for_and_reads_nothing_else_twice():
    drawer = Drawer(a="new", b="new")
    sweep = asyncio.create_task(drawer.changes.sweep(drawer.marks, drawer.clock))
    states, others = drawer.follow("a"), drawer.follow("b")
    await anext(states), await anext(others)
    following = asyncio.create_task(anext(states))
    idle = asyncio.create_task(anext(others))
    for _ in range(5):
        await rest()
        drawer.clock.advance(1)
    await rest()
    # each was looked at once more when the sweep met it first
    assert drawer.reads == 4
    drawer.change("a", "DONE", hint=False)
    drawer.clock.advance(1)
    assert await asyncio.wait_for(following, 20) == "DONE"
    assert not idle.done()
    for task in (idle, sweep):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_closing_ends_those_who_follow():
    drawer = Drawer(a="new")
    states = drawer.follow("a")
    await anext(states)
    following = asyncio.create_task(anext(states))
    await rest()
    drawer.changes.close()
    with pytest.raises(FeedClosed):
        await following
    late = drawer.follow("a")
    assert await anext(late) == "new"
    with pytest.raises(FeedClosed):
        await anext(late)
