"""Clocks: time is an argument, from the system's clock or one that a test advances."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, runtime_checkable


class Clock(Protocol):
    """Returns the time and waits for it."""

    def now_us(self) -> int:
        """Return microseconds since the Unix epoch; goes back when the clock is set back."""

    def steady_us(self) -> int:
        """Return microseconds that never go back: only for durations within this process."""

    async def sleep(self, seconds: float) -> None:
        """Return when that much time has passed on this clock."""


@runtime_checkable
class AdvanceableClock(Protocol):
    """A clock that can be moved on."""

    def now_us(self) -> int:
        """Return microseconds since the Unix epoch."""

    def advance(self, seconds: float) -> None:
        """Advance the time, and wake every waiting task."""


# near the time of day, so that values of several processes are comparable
_STEADY_BASE_NS = time.time_ns() - time.monotonic_ns()


def _steady_us() -> int:
    return (_STEADY_BASE_NS + time.monotonic_ns()) // 1000


def _machine_us() -> int:
    return time.time_ns() // 1000


class SystemClock:
    """The time of the machine, or of a database that several machines share once it is followed."""

    def __init__(self, machine_us: Callable[[], int] = _machine_us) -> None:
        self._machine_us = machine_us
        # how far the followed clock is ahead of the steady one
        self._ahead_of_steady_us: int | None = None

    @property
    def machine_offset_us(self) -> int:
        """Return the microseconds by which the machine's clock is ahead of the followed one."""
        if self._ahead_of_steady_us is None:
            return 0
        return self._machine_us() - (_steady_us() + self._ahead_of_steady_us)

    def real_steady_us(self) -> int:
        """Return the microseconds that `follow` counts by, which are never advanced."""
        return _steady_us()

    def follow(self, now_us: int, at_us: int, *, tolerance_us: int = 0) -> None:
        """Follow a clock that showed `now_us` when `elapsed_us` was `at_us`.

        The machine's clock no longer counts from then on: setting it changes nothing. A clock that
        is followed already is not set again for a difference within the tolerance.
        """
        ahead_us = now_us - at_us
        kept_us = self._ahead_of_steady_us
        if kept_us is None or abs(ahead_us - kept_us) > tolerance_us:
            self._ahead_of_steady_us = ahead_us

    def real_now_us(self) -> int:
        """Return the time of other machines on the network, without what tests advanced."""
        if self._ahead_of_steady_us is None:
            return self._machine_us()
        return _steady_us() + self._ahead_of_steady_us

    def now_us(self) -> int:
        """Return microseconds since the Unix epoch."""
        return self.real_now_us()

    def steady_us(self) -> int:
        """Return microseconds that never go back."""
        return _steady_us()

    async def sleep(self, seconds: float) -> None:
        """Return when that much time has passed."""
        await asyncio.sleep(seconds)


class ShiftedClock(SystemClock):
    """The time of a system clock, shifted: it runs, and can be advanced."""

    def __init__(self, ahead_us: int = 0, machine_us: Callable[[], int] = _machine_us) -> None:
        super().__init__(machine_us)
        self._ahead_us = ahead_us
        self._moved = asyncio.Event()

    def now_us(self) -> int:
        """Return microseconds since the Unix epoch."""
        return super().now_us() + self._ahead_us

    def steady_us(self) -> int:
        """Return microseconds that never go back, advanced with the clock."""
        return _steady_us() + self._ahead_us

    async def sleep(self, seconds: float) -> None:
        """Return when that much time has passed, also by an advance."""
        due_us = self.steady_us() + int(seconds * 1_000_000)
        while (left_us := due_us - self.steady_us()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_us / 1_000_000):
                    await self._moved.wait()

    def advance(self, seconds: float) -> None:
        """Advance the time, and wake every waiting task."""
        self._ahead_us += int(seconds * 1_000_000)
        self._moved.set()
        self._moved = asyncio.Event()


class TestClock:
    """A clock that stops until it is advanced; used by test mode and by tests."""

    __test__ = False  # not a test case, despite its name

    def __init__(self, start_us: int) -> None:
        self._steady_us = start_us
        self._behind_us = 0
        self._order = itertools.count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    @property
    def sleeper_count(self) -> int:
        """Return how many tasks wait for it to be advanced."""
        return sum(not done.done() for _, _, done in self._sleepers)

    def now_us(self) -> int:
        """Return microseconds since the Unix epoch."""
        return self._steady_us - self._behind_us

    def steady_us(self) -> int:
        """Return microseconds that never go back."""
        return self._steady_us

    def set_back(self, seconds: float) -> None:
        """Set the time of day back, as an operator or NTP does; no time passes by that."""
        self._behind_us += int(seconds * 1_000_000)

    async def sleep(self, seconds: float) -> None:
        """Return once the clock was advanced by that much."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        due = self._steady_us + int(seconds * 1_000_000)
        if due <= self._steady_us:
            await asyncio.sleep(0)
            return
        heapq.heappush(self._sleepers, (due, next(self._order), done))
        await done

    def advance(self, seconds: float) -> None:
        """Advance the time, and wake every waiting task, in order."""
        self._steady_us += int(seconds * 1_000_000)
        while self._sleepers and self._sleepers[0][0] <= self._steady_us:
            _, _, done = heapq.heappop(self._sleepers)
            if not done.done():
                done.set_result(None)


async def sleep_remaining(clock: Clock, seconds: float, since_us: int) -> None:
    """Return when that much time has passed since then, after at most that wait.

    For a loop of checks, `since_us` is the start of the last check: what became due while it ran is
    checked at once, even on a clock that is never advanced again.
    """
    passed_s = max(0, clock.now_us() - since_us) / 1_000_000
    await clock.sleep(max(0.0, seconds - passed_s))


async def wait_for_first(
    *waits: Coroutine[Any, Any, object], timeout_s: float | None = None
) -> None:
    """Return when the first of several waits ends, or after a time; end the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
