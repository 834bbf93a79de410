"""An event loop that detects when no work is left until the clock moves.

The simulated clock moves only then, so the service finishes the work of one moment before the next
moment. The loop is quiet when it is about to wait and no thread works for it. Only timers of the
machine remain: short ones, which batch calls, fire at once; long ones are timeouts of calls.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# waits up to this length count as work in progress
_SHORT_WAIT_S: Final = 0.02


class _WaitHookSelector(selectors.DefaultSelector):
    """A selector that calls a hook before the loop waits."""

    def __init__(self) -> None:
        super().__init__()
        self.before_wait: Callable[[float | None], bool] = lambda _: False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            # process events that arrived meanwhile first
            if events := super().select(0):
                return events
            if self.before_wait(timeout):
                return []
        return super().select(timeout)


class QuietLoop(asyncio.SelectorEventLoop):
    """The event loop of one simulation. Other threads than its executor's report if busy."""

    def __init__(self) -> None:
        self._hook_selector = _WaitHookSelector()
        self._ahead_s = 0.0
        super().__init__(self._hook_selector)
        self._hook_selector.before_wait = self._handle_wait
        self._busy_checks: list[Callable[[], bool]] = []
        self._job_count = 0
        self._waiter: asyncio.Future[None] | None = None

    def add_busy_check(self, busy: Callable[[], bool]) -> None:
        """Add a condition: the loop is not quiet while it is true; it must end on the loop."""
        self._busy_checks.append(busy)

    async def wait_until_idle(self) -> None:
        """Wait until no work is left; only one caller at a time can wait."""
        if self._waiter is not None:
            raise RuntimeError("another caller waits already")
        self._waiter = self.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def time(self) -> float:
        """Return the machine's time plus the short waits that the loop skipped."""
        return super().time() + self._ahead_s

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function in an executor, and count it as work in progress."""
        self._job_count += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._on_job_done)
        return future

    def _on_job_done(self, _future: asyncio.Future[Any]) -> None:
        self._job_count -= 1

    def _handle_wait(self, seconds: float | None) -> bool:
        """Return True if the loop has something to do before it waits for its next timer."""
        if self._job_count or any(busy() for busy in self._busy_checks):
            return False
        if seconds is not None and seconds <= _SHORT_WAIT_S:
            self._ahead_s += seconds
            return True
        waiter = self._waiter
        if waiter is None or waiter.done():
            return False
        waiter.set_result(None)
        return True
