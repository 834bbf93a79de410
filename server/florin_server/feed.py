"""Tells watchers about every change: snapshot first, then each newer state, once.

A watcher registers before it reads, so no change falls between the two. It has one slot that holds
the newest state only: a slow reader skips states, never delays others and never costs more memory.
Hints may get lost; a sweep compares versions with the store, so that every watcher reaches the
final state.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    KeysView,
    Mapping,
    Sequence,
)
from typing import TypeVar

from florin_server.clock import Clock
from florin_server.domain.payments.payment import Payment

Read = Callable[[str], Awaitable[Payment | None]]
Marks = Callable[[Sequence[str]], Awaitable[Mapping[str, object]]]
Newer = Callable[[Sequence[tuple[str, int]]], Awaitable[Iterable[Payment]]]

_T = TypeVar("_T")
_SWEPT = 500  # at a time


class FeedClosed(Exception):  # noqa: N818  (nothing went wrong)
    """This process stops, and what was watched is not final.

    `version` is the last one that was yielded; None where there is none.
    """

    def __init__(self, version: int | None = None) -> None:
        self.version = version
        super().__init__("the process stops")


class _Slot:
    """The newest state that a watcher has not seen yet."""

    __slots__ = ("latest", "seen", "waiter")

    def __init__(self, seen: int) -> None:
        self.latest: Payment | None = None
        self.seen = seen
        self.waiter: asyncio.Future[None] | None = None

    @property
    def newest(self) -> int:
        """The newest version that was put in."""
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


class Hub:
    """All watchers of one process."""

    def __init__(self, read: Read, newer: Newer, clock: Clock, sweep_s: float = 1.0) -> None:
        self._read = read
        self._newer = newer
        self._clock = clock
        self._sweep_s = sweep_s
        self._slots: dict[str, set[_Slot]] = {}
        self._closed = False

    @property
    def watchers(self) -> int:
        """How many streams are held now."""
        return sum(len(slots) for slots in self._slots.values())

    def publish(self, payment: Payment) -> None:
        """Tells the payment's watchers its new state; call it after the commit."""
        for slot in self._slots.get(payment.id, ()):
            slot.put(payment)

    async def watch(self, payment_id: str, after_version: int = -1) -> AsyncIterator[Payment]:
        """Yields states with rising versions above `after_version`; ends after a final one.

        Ends at once for an unknown payment; FeedClosed once the hub has closed.
        """
        slot = _Slot(after_version)
        slots = self._slots.setdefault(payment_id, set())
        slots.add(slot)
        try:
            payment = await self._read(payment_id)
            while payment is not None:
                if payment.version > slot.seen:
                    slot.seen = payment.version
                    yield payment
                if payment.status.is_final:
                    return
                # what a closed hub was told still reaches those who read slowly
                if self._closed and slot.latest is None:
                    raise FeedClosed(slot.seen if slot.seen >= 0 else None)
                payment = await slot.take()
                if payment is None:
                    raise FeedClosed(slot.seen if slot.seen >= 0 else None)
        finally:
            slots.discard(slot)
            if not slots and self._slots.get(payment_id) is slots:
                del self._slots[payment_id]

    def behind(self, told: Mapping[str, int]) -> dict[str, int]:
        """Those of the payments, with versions, that a watcher here has not been told yet."""
        return {
            one: version
            for one, version in told.items()
            if any(slot.newest < version for slot in self._slots.get(one, ()))
        }

    async def read_again(self, told: Mapping[str, int]) -> None:
        """Tells the watchers of payments what the store has of them now."""
        ids = list(self.behind(told))
        for start in range(0, len(ids), _SWEPT):
            some = ids[start : start + _SWEPT]
            for payment in await asyncio.gather(*(self._read(one) for one in some)):
                if payment is not None:
                    self.publish(payment)

    async def look(self) -> None:
        """Compares the versions of all that is watched with the store, and tells what is newer."""
        seen = [(i, min(s.seen for s in slots)) for i, slots in self._slots.items()]
        for start in range(0, len(seen), _SWEPT):
            for payment in await self._newer(seen[start : start + _SWEPT]):
                self.publish(payment)

    async def sweep(self) -> None:
        """Looks until cancelled, and tells what hints missed."""
        while True:
            await self._clock.sleep(self._sweep_s)
            await self.look()

    def close(self) -> None:
        """Ends every stream by FeedClosed."""
        self._closed = True
        for slots in self._slots.values():
            for slot in slots:
                slot.wake()


class Changes:
    """Those who follow what has no version: each is told a value whenever it is another one.

    Whoever changes something rings its id after the commit; a sweep finds what nobody rang for.
    """

    def __init__(self) -> None:
        self._bells: dict[str, set[asyncio.Event]] = {}
        self._closed = False

    @property
    def followers(self) -> int:
        """How many streams are held now."""
        return sum(len(bells) for bells in self._bells.values())

    @property
    def followed(self) -> KeysView[str]:
        """The ids of what is followed now."""
        return self._bells.keys()

    def ring(self, *ids: str) -> None:
        """Wakes those who follow something that may have changed."""
        for one in ids:
            for bell in self._bells.get(one, ()):
                bell.set()

    async def follow(
        self, id_: str, read: Callable[[], Awaitable[_T | None]], is_final: Callable[[_T], bool]
    ) -> AsyncIterator[_T]:
        """Yields what `read` tells, now and whenever it differs; ends after a final value.

        Ends at once for what is not there; FeedClosed once the feed has closed.
        """
        bell = asyncio.Event()
        bells = self._bells.setdefault(id_, set())
        bells.add(bell)
        told: _T | None = None
        try:
            while (now := await read()) is not None:
                if now != told:
                    told = now
                    yield now
                if is_final(now):
                    return
                if self._closed:
                    raise FeedClosed
                await bell.wait()
                # what changes from here on rings again
                bell.clear()
        finally:
            bells.discard(bell)
            if not bells and self._bells.get(id_) is bells:
                del self._bells[id_]

    async def sweep(self, marks: Marks, clock: Clock, sweep_s: float = 1.0) -> None:
        """Compares what is followed with the store until cancelled, and rings what changed.

        `marks` reads, by id, what differs whenever the thing has changed.
        """
        known: Mapping[str, object] = {}
        while True:
            await clock.sleep(sweep_s)
            ids, found = list(self._bells), dict[str, object]()
            for start in range(0, len(ids), _SWEPT):
                found |= await marks(ids[start : start + _SWEPT])
            # one that is followed since the last time may have changed in between
            self.ring(*(one for one in ids if one not in known or found.get(one) != known[one]))
            known = {one: found.get(one) for one in ids}

    def close(self) -> None:
        """Ends every stream by FeedClosed."""
        self._closed = True
        self.ring(*self._bells)
