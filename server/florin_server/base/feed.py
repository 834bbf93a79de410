"""Sends every change to watchers: snapshot first, then each newer state, once.

A watcher registers before it reads, so no change falls between the two. It has one slot that
contains the newest state only: a slow reader skips states, never delays others and never costs more
memory. Hints can get lost; a sweep compares versions with the store, so that every watcher reaches
the final state.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from florin_server.base.clock import Clock
from florin_server.base.subscriptions import Subscriptions
from florin_server.base.topics import Topic
from florin_server.domain.payments.payment import Payment

ReadPayment = Callable[[str], Awaitable[Payment | None]]
ReadChangeMarks = Callable[[Sequence[str]], Awaitable[Mapping[str, object]]]
ReadNewerPayments = Callable[[Sequence[tuple[str, int]]], Awaitable[Iterable[Payment]]]

_T = TypeVar("_T")
_SWEEP_BATCH = 500  # at a time


class FeedClosed(Exception):  # noqa: N818  (nothing went wrong)
    """This process stops before the watched payment is final.

    `version` is the last version that was yielded; None without one.
    """

    def __init__(self, version: int | None = None) -> None:
        self.version = version
        super().__init__("the process is stopping")


class _WatcherSlot:
    """The newest state that a watcher has not seen yet."""

    __slots__ = ("latest", "seen", "waiter")

    def __init__(self, seen: int) -> None:
        self.latest: Payment | None = None
        self.seen = seen
        self.waiter: asyncio.Future[None] | None = None

    @property
    def newest_version(self) -> int:
        """Return the newest version that was put in."""
        return self.seen if self.latest is None else self.latest.version

    def put(self, payment: Payment) -> None:
        if payment.version <= self.seen:
            return
        if self.latest is None or payment.version > self.latest.version:
            self.latest = payment
            self.wake()

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def take(self) -> Payment | None:
        if self.latest is None:
            self.waiter = asyncio.get_running_loop().create_future()
            try:
                await self.waiter
            finally:
                self.waiter = None
        payment, self.latest = self.latest, None
        return payment


class PaymentFeed:
    """All watchers of one process."""

    def __init__(
        self,
        read_payment: ReadPayment,
        read_newer: ReadNewerPayments,
        clock: Clock,
        sweep_s: float = 1.0,
    ) -> None:
        self._read_payment = read_payment
        self._read_newer = read_newer
        self._clock = clock
        self._sweep_s = sweep_s
        self._slots: dict[str, set[_WatcherSlot]] = {}
        self._closed = False

    @property
    def watcher_count(self) -> int:
        """Return how many streams are open now."""
        return sum(len(slots) for slots in self._slots.values())

    def publish(self, payment: Payment) -> None:
        """Send the payment's new state to its watchers; call it after the commit."""
        for slot in self._slots.get(payment.id, ()):
            slot.put(payment)

    async def watch(self, payment_id: str, after_version: int = -1) -> AsyncIterator[Payment]:
        """Yield states with rising versions above `after_version`; end after a final one.

        Ends at once for an unknown payment; FeedClosed once the hub has closed.
        """
        slot = _WatcherSlot(after_version)
        slots = self._slots.setdefault(payment_id, set())
        slots.add(slot)
        try:
            payment = await self._read_payment(payment_id)
            while payment is not None:
                if payment.version > slot.seen:
                    slot.seen = payment.version
                    yield payment
                if payment.status.is_final:
                    return
                # slow readers still receive what was published before the close
                if self._closed and slot.latest is None:
                    raise FeedClosed(slot.seen if slot.seen >= 0 else None)
                payment = await slot.take()
                if payment is None:
                    raise FeedClosed(slot.seen if slot.seen >= 0 else None)
        finally:
            slots.discard(slot)
            if not slots and self._slots.get(payment_id) is slots:
                del self._slots[payment_id]

    def filter_unseen(self, versions: Mapping[str, int]) -> dict[str, int]:
        """Return those of the payments, with versions, that a watcher here has not received yet."""
        return {
            payment_id: version
            for payment_id, version in versions.items()
            if any(slot.newest_version < version for slot in self._slots.get(payment_id, ()))
        }

    async def refresh(self, versions: Mapping[str, int]) -> None:
        """Send the watchers of payments what the store has now."""
        ids = list(self.filter_unseen(versions))
        for start in range(0, len(ids), _SWEEP_BATCH):
            batch = ids[start : start + _SWEEP_BATCH]
            for payment in await asyncio.gather(
                *(self._read_payment(payment_id) for payment_id in batch)
            ):
                if payment is not None:
                    self.publish(payment)

    async def sweep_once(self) -> None:
        """Compare the versions of all watched payments with the store, and send newer ones."""
        seen = [(i, min(s.seen for s in slots)) for i, slots in self._slots.items()]
        for start in range(0, len(seen), _SWEEP_BATCH):
            for payment in await self._read_newer(seen[start : start + _SWEEP_BATCH]):
                self.publish(payment)

    async def sweep(self) -> None:
        """Check until canceled, and send what hints missed."""
        while True:
            await self._clock.sleep(self._sweep_s)
            await self.sweep_once()

    def close(self) -> None:
        """End every stream by FeedClosed."""
        self._closed = True
        for slots in self._slots.values():
            for slot in slots:
                slot.wake()


class ChangeFeed:
    """Followers of items without versions: each receives a value whenever it changes.

    They subscribe to the item's id in a topic; a sweep finds changes without a notification.
    """

    def __init__(self, subscriptions: Subscriptions, topic: Topic) -> None:
        self._subscriptions = subscriptions
        self._topic = topic
        self._closed = False
        self.follower_count = 0  # the streams that are open now

    async def follow(
        self, id_: str, read: Callable[[], Awaitable[_T | None]], is_final: Callable[[_T], bool]
    ) -> AsyncIterator[_T]:
        """Yield what `read` returns, now and after each change; end after a final value.

        It ends at once for an unknown item; FeedClosed once the feed has closed.
        """
        changed = asyncio.Event()
        unsubscribe = self._subscriptions.subscribe(self._topic, changed, id_)
        self.follower_count += 1
        previous: _T | None = None
        try:
            while (now := await read()) is not None:
                if now != previous:
                    previous = now
                    yield now
                if is_final(now):
                    return
                if self._closed:
                    raise FeedClosed
                await changed.wait()
                # changes from here on set it again
                changed.clear()
        finally:
            unsubscribe()
            self.follower_count -= 1

    async def sweep(self, read_marks: ReadChangeMarks, clock: Clock, sweep_s: float = 1.0) -> None:
        """Compare followed items with the store until canceled, and notify of changed ones.

        `read_marks` reads, by id, what differs whenever the thing has changed.
        """
        previous_marks: Mapping[str, object] = {}
        while True:
            await clock.sleep(sweep_s)
            ids, marks = self._subscriptions.list_keys(self._topic), dict[str, object]()
            for start in range(0, len(ids), _SWEEP_BATCH):
                marks |= await read_marks(ids[start : start + _SWEEP_BATCH])
            for followed_id in ids:
                # a follower since the last sweep may have missed a change in between
                if (
                    followed_id not in previous_marks
                    or marks.get(followed_id) != previous_marks[followed_id]
                ):
                    self._subscriptions.notify(self._topic, followed_id)
            previous_marks = {followed_id: marks.get(followed_id) for followed_id in ids}

    def close(self) -> None:
        """End every stream by FeedClosed."""
        self._closed = True
        self._subscriptions.notify_all(self._topic)
