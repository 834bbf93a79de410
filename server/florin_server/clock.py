"""Time comes in as an argument: the system's clock, or one that a test moves."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import time
from collections.abc import Coroutine
from typing import Any, Protocol, runtime_checkable


class Clock(Protocol):
    """Tells the time and waits for it."""

    def now_us(self) -> int:
        """Microseconds since the Unix epoch."""

    async def sleep(self, seconds: float) -> None:
        """Returns when that much time has passed on this clock."""


@runtime_checkable
class Movable(Protocol):
    """A clock that can be moved on."""

    def now_us(self) -> int:
        """Microseconds since the Unix epoch."""

    def advance(self, seconds: float) -> None:
        """Moves the time on and wakes whoever waited for it."""


class SystemClock:
    """The time of the machine."""

    def now_us(self) -> int:
        """Microseconds since the Unix epoch."""
        return time.time_ns() // 1000

    async def sleep(self, seconds: float) -> None:
        """Returns when that much time has passed."""
        await asyncio.sleep(seconds)


class ShiftedClock:
    """The time of the machine, moved on: it goes by itself, and can be advanced."""

    def __init__(self, ahead_us: int = 0) -> None:
        self._ahead_us = ahead_us
        self._moved = asyncio.Event()

    def now_us(self) -> int:
        """Microseconds since the Unix epoch."""
        return time.time_ns() // 1000 + self._ahead_us

    async def sleep(self, seconds: float) -> None:
        """Returns when that much time has passed, by itself or at once."""
        due_us = self.now_us() + int(seconds * 1_000_000)
        while (left_us := due_us - self.now_us()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_us / 1_000_000):
                    await self._moved.wait()

    def advance(self, seconds: float) -> None:
        """Moves the time on and wakes whoever waited for it."""
        self._ahead_us += int(seconds * 1_000_000)
        self._moved.set()
        self._moved = asyncio.Event()


class TestClock:
    """A clock that stands still until it is advanced; used by test mode and by tests."""

    __test__ = False  # not a test case, whatever its name begins with

    def __init__(self, start_us: int) -> None:
        self._now_us = start_us
        self._order = itertools.count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    @property
    def sleepers(self) -> int:
        """How many wait for it to be advanced."""
        return sum(not done.done() for _, _, done in self._sleepers)

    def now_us(self) -> int:
        """Microseconds since the Unix epoch."""
        return self._now_us

    async def sleep(self, seconds: float) -> None:
        """Returns once the clock was advanced by that much."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        due = self._now_us + int(seconds * 1_000_000)
        if due <= self._now_us:
            await asyncio.sleep(0)
            return
        heapq.heappush(self._sleepers, (due, next(self._order), done))
        await done

    def advance(self, seconds: float) -> None:
        """Moves the time on and wakes whoever waited for it, in order."""
        self._now_us += int(seconds * 1_000_000)
        while self._sleepers and self._sleepers[0][0] <= self._now_us:
            _, _, done = heapq.heappop(self._sleepers)
            if not done.done():
                done.set_result(None)


async def rest(clock: Clock, seconds: float, since_us: int) -> None:
    """Returns when that much time has passed since then, and waits at most that long.

    For whoever looks again and again, `since_us` is when the look before began: what came due while
    it ran is looked for at once, also on a clock that nobody moves once more.
    """
    passed_s = max(0, clock.now_us() - since_us) / 1_000_000
    await clock.sleep(max(0.0, seconds - passed_s))


async def first_of(*waits: Coroutine[Any, Any, object], seconds: float | None = None) -> None:
    """Returns when the first of several waits is over, or after a time; ends the others."""
    tasks = [asyncio.ensure_future(one) for one in waits]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
