"""Test watchers: which states of a payment they see, and that they leave nothing behind."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from florin_server.base.clock import TestClock
from florin_server.base.feed import ChangeFeed, FeedClosed, PaymentFeed
from florin_server.base.subscriptions import Subscriptions
from florin_server.base.topics import Topic
from florin_server.domain.payments.payment import Payment, PaymentStatus

NEW = Payment(
    id="pay_1",
    partner_id="p",
    merchant_id="m",
    live=False,
    status=PaymentStatus.REQUIRES_ACTION,
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
BUSY = replace(NEW, status=PaymentStatus.PROCESSING, version=1)
PAID = replace(NEW, status=PaymentStatus.SUCCEEDED, version=2)


class Shelf:
    """A store of payments; `gate` blocks reads."""

    def __init__(self, *payments: Payment) -> None:
        self.payments = {payment.id: payment for payment in payments}
        self.clock = TestClock(0)
        self.gate = asyncio.Event()
        self.gate.set()
        self.swept: list[int] = []
        self.hub = PaymentFeed(self.read, self.newer, self.clock)

    async def read(self, payment_id):
        payment = self.payments.get(payment_id)
        await self.gate.wait()
        return payment

    async def newer(self, seen):
        self.swept.append(len(seen))
        return [self.payments[i] for i, version in seen if self.payments[i].version > version]

    def change(self, payment: Payment, *, hint: bool = True) -> None:
        self.payments[payment.id] = payment
        if hint:
            self.hub.publish(payment)


async def rest() -> None:
    """Run everything that can run."""
    for _ in range(10):
        await asyncio.sleep(0)


async def leaves_nothing(shelf: Shelf) -> bool:
    """Return whether sweeps no longer look for any watcher."""
    shelf.swept.clear()
    sweeps = asyncio.create_task(shelf.hub.sweep())
    await rest()
    shelf.clock.advance(1)
    await rest()
    ended = sweeps.done()
    sweeps.cancel()
    return not ended and shelf.swept == []


async def versions(hub: PaymentFeed, after: int = -1) -> list[int]:
    return [payment.version async for payment in hub.watch("pay_1", after)]


async def test_only_versions_unseen_by_a_watcher_are_behind():
    shelf = Shelf(BUSY)
    assert shelf.hub.filter_unseen({"pay_1": 9}) == {}
    watching = asyncio.create_task(versions(shelf.hub))
    await rest()
    result = {"pay_1": 1, "pay_2": 9}
    assert shelf.hub.filter_unseen(result) == {}
    assert shelf.hub.filter_unseen({**result, "pay_1": 2}) == {"pay_1": 2}
    shelf.hub.publish(PAID)
    # it is there, but not consumed yet
    assert shelf.hub.filter_unseen({"pay_1": 2}) == {}
    assert await watching == [1, 2]


async def test_hint_causes_a_read_and_is_not_trusted():
    shelf = Shelf(NEW)
    watching = asyncio.create_task(versions(shelf.hub))
    await rest()
    await shelf.hub.refresh({"pay_1": 99, "pay_2": 1})
    shelf.change(PAID, hint=False)
    await shelf.hub.refresh({"pay_1": 1})
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
    assert shelf.hub.watcher_count == 0


async def test_final_payment_is_yielded_once():
    assert await versions(Shelf(PAID).hub) == [2]


@pytest.mark.parametrize(("after", "expected"), [(-1, [2]), (0, [2]), (1, [2]), (2, []), (9, [])])
async def test_only_versions_above_the_requested_version_are_yielded(after, expected):
    assert await versions(Shelf(PAID).hub, after) == expected


async def test_an_unknown_payment_ends_at_once():
    shelf = Shelf()
    assert await versions(shelf.hub) == []
    assert shelf.hub.watcher_count == 0


async def test_repeated_or_late_hints_are_ignored():
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


async def test_slow_reader_skips_states_and_delays_no_other_reader():
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


async def test_lost_hint_is_detected_by_the_sweep():
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
    assert shelf.hub.watcher_count == 2_200
    await rest()
    shelf.clock.advance(1)
    await rest()
    assert shelf.swept == [500, 500, 100]
    sweep.cancel()
    for watch in watches:
        await watch.aclose()
    assert shelf.hub.watcher_count == 0


async def test_sweep_reads_nothing_without_watchers():
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
    # later watchers get only the snapshot
    late = shelf.hub.watch("pay_1")
    assert await anext(late) == NEW
    with pytest.raises(FeedClosed):
        await anext(late)
    with pytest.raises(FeedClosed) as silent:
        await versions(shelf.hub, after=7)
    assert silent.value.version == 7
    shelf.change(PAID, hint=False)
    assert await versions(shelf.hub) == [2]
    assert shelf.hub.watcher_count == 0


@pytest.mark.parametrize("moment", ["reading", "waiting"])
async def test_a_watcher_that_leaves_leaves_nothing(moment):
    shelf = Shelf(NEW)
    if moment == "reading":
        shelf.gate.clear()
    tasks = [asyncio.create_task(versions(shelf.hub)) for _ in range(3)]
    await rest()
    assert shelf.hub.watcher_count == 3
    tasks[0].cancel()
    await rest()
    assert shelf.hub.watcher_count == 2
    shelf.gate.set()
    shelf.change(PAID)
    assert (await tasks[1])[-1] == (await tasks[2])[-1] == 2
    assert shelf.hub.watcher_count == 0
    assert await leaves_nothing(shelf)


async def test_a_read_that_fails_leaves_nothing():
    shelf = Shelf(NEW)

    async def broken(_payment_id):
        raise OSError("the disk is gone")

    shelf.hub = PaymentFeed(broken, shelf.newer, shelf.clock)
    with pytest.raises(OSError, match="disk"):
        await versions(shelf.hub)
    assert await leaves_nothing(shelf)


# feeds without versions


class Drawer:
    """Values by ID, whose changes are published or not."""

    def __init__(self, **values: str) -> None:
        self.values: dict[str, str] = values
        self.clock = TestClock(0)
        self.notifications = Subscriptions()
        self.changes = ChangeFeed(self.notifications, Topic.PAYOUT)
        self.reads = 0

    def follow(self, name: str):
        async def read() -> str | None:
            self.reads += 1
            return self.values.get(name)

        return self.changes.follow(name, read, lambda value: value.isupper())

    async def marks(self, ids):
        return {item: self.values[item] for item in ids if item in self.values}

    def change(self, name: str, value: str, *, hint: bool = True) -> None:
        self.values[name] = value
        if hint:
            self.notifications.notify(Topic.PAYOUT, name)


async def test_each_changed_value_is_yielded_once_until_final():
    drawer = Drawer(a="new")
    states = drawer.follow("a")
    assert await anext(states) == "new"
    following = asyncio.create_task(anext(states))
    # a change that a follower does not see
    for name in ("a", "b"):
        drawer.notifications.notify(Topic.PAYOUT, name)
    await rest()
    assert not following.done()
    drawer.change("a", "sent")
    assert await following == "sent"
    # a slow reader skips outdated values
    drawer.change("a", "new")
    drawer.change("a", "DONE")
    assert [value async for value in states] == ["DONE"]
    assert drawer.changes.follower_count == 0


async def test_missing_or_final_value_is_not_followed():
    drawer = Drawer(a="DONE")
    assert [value async for value in drawer.follow("a")] == ["DONE"]
    assert [value async for value in drawer.follow("b")] == []
    assert drawer.changes.follower_count == 0


async def test_sweep_detects_unannounced_changes_and_rereads_nothing_else():
    drawer = Drawer(a="new", b="new")
    sweep = asyncio.create_task(drawer.changes.sweep(drawer.marks, drawer.clock))
    states, remaining = drawer.follow("a"), drawer.follow("b")
    await anext(states), await anext(remaining)
    following = asyncio.create_task(anext(states))
    idle = asyncio.create_task(anext(remaining))
    for _ in range(5):
        await rest()
        drawer.clock.advance(1)
    await rest()
    # the first sweep read each value once more
    assert drawer.reads == 4
    drawer.change("a", "DONE", hint=False)
    drawer.clock.advance(1)
    assert await asyncio.wait_for(following, 20) == "DONE"
    assert not idle.done()
    for task in (idle, sweep):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_close_ends_every_follower():
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
