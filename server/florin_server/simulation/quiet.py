"""An event loop that knows when all that can be done is done.

A simulated clock moves only then: whatever the service does because of a moment, it has done it
before the next one. The loop is about to wait, and no thread works for it, so nothing more happens
until the clock moves. Only timers of the machine's are left: the short ones, by which questions
are collected, fire at once, and the long ones are against a world that does not answer.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# waits of the machine up to here are part of what is being done
_SHORT_S: Final = 0.02


class _Selector(selectors.DefaultSelector):
    """Tells that the loop is about to wait, before it does."""

    def __init__(self) -> None:
        super().__init__()
        self.about_to_wait: Callable[[float | None], bool] = lambda _: False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            # what came in meanwhile is done first
            if found := super().select(0):
                return found
            if self.about_to_wait(timeout):
                return []
        return super().select(timeout)


class QuietLoop(asyncio.SelectorEventLoop):
    """Runs one simulation. Threads beside its own executor's are asked whether they are busy."""

    def __init__(self) -> None:
        self._selecting = _Selector()
        self._ahead_s = 0.0
        super().__init__(self._selecting)
        self._selecting.about_to_wait = self._tell
        self._busy: list[Callable[[], bool]] = []
        self._jobs = 0
        self._waiter: asyncio.Future[None] | None = None

    def heed(self, busy: Callable[[], bool]) -> None:
        """Nothing is quiet while this is true; it must become false on the loop."""
        self._busy.append(busy)

    async def quiet(self) -> None:
        """Returns once nothing more happens by itself; one at a time may wait for it."""
        if self._waiter is not None:
            raise RuntimeError("somebody waits already")
        self._waiter = self.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def time(self) -> float:
        """The machine's, without the short waits that nobody waited for."""
        return super().time() + self._ahead_s

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """As usual, and counted."""
        self._jobs += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._job_done)
        return future

    def _job_done(self, _future: asyncio.Future[Any]) -> None:
        self._jobs -= 1

    def _tell(self, seconds: float | None) -> bool:
        """True if the loop has something to do before it waits so long for its next timer."""
        if self._jobs or any(busy() for busy in self._busy):
            return False
        if seconds is not None and seconds <= _SHORT_S:
            self._ahead_s += seconds
            return True
        waiter = self._waiter
        if waiter is None or waiter.done():
            return False
        waiter.set_result(None)
        return True
