"""Tells watchers about every change of a payment: snapshot first, then each newer state, once.

A watcher registers before it reads, so no change falls between the two. It has one slot that holds
the newest state only: a slow reader skips states, never delays others and never costs more memory.
Hints may get lost; a sweep compares versions with the store, so that every watcher reaches the
final state.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

from florin_server.clock import Clock
from florin_server.domain.payment import Payment

Read = Callable[[str], Awaitable[Payment | None]]
Newer = Callable[[Sequence[tuple[str, int]]], Awaitable[Iterable[Payment]]]


class _Slot:
    """The newest state that a watcher has not seen yet."""

    __slots__ = ("latest", "seen", "waiter")

    def __init__(self, seen: int) -> None:
        self.latest: Payment | None = None
        self.seen = seen
        self.waiter: asyncio.Future[None] | None = None

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

        Ends at once for an unknown payment, and when the hub closes.
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
                if payment.status.is_final or self._closed:
                    return
                payment = await slot.take()
        finally:
            slots.discard(slot)
            if not slots and self._slots.get(payment_id) is slots:
                del self._slots[payment_id]

    async def sweep(self) -> None:
        """Compares versions with the store until cancelled, and tells what hints missed."""
        while True:
            await self._clock.sleep(self._sweep_s)
            seen = [(i, min(s.seen for s in slots)) for i, slots in self._slots.items()]
            for start in range(0, len(seen), 500):
                for payment in await self._newer(seen[start : start + 500]):
                    self.publish(payment)

    def close(self) -> None:
        """Ends every stream."""
        self._closed = True
        for slots in self._slots.values():
            for slot in slots:
                slot.wake()
