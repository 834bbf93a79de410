"""Waits that end early: when the client leaves, the time is over, or the gateway stops.

One wait covers the current task inside a `with` block. The first event cancels the task; the block
then ends quietly, and the wait has the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from enum import Enum, auto
from types import TracebackType
from typing import Any, Self

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class WaitEnd(Enum):
    """The reason that a wait ended before its block did."""

    TIME_UP = auto()
    CLIENT_GONE = auto()
    STOPPED = auto()


class RequestWait:
    """The current task, cancelled at the first of three events.

    `timeout_s` None means no time limit, `receive` None that the client is not watched. The client
    is watched after `watch_delay_s`, so that a quick call costs one timer and no second task.
    Stopping the gateway ends every wait in `waits`.
    """

    __slots__ = (
        "_cancel_count",
        "_loop",
        "_receive",
        "_task",
        "_timeout_s",
        "_timer",
        "_waits",
        "_watch_delay_s",
        "_watcher",
        "end",
    )

    def __init__(
        self,
        receive: Receive | None,
        *,
        timeout_s: float | None = None,
        watch_delay_s: float = 0.0,
        waits: set[RequestWait] | None = None,
    ) -> None:
        self.end: WaitEnd | None = None
        self._receive = receive
        self._timeout_s = timeout_s
        self._watch_delay_s = watch_delay_s if receive is not None else 0.0
        self._waits = waits
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a RequestWait needs a current task")
        self._task = task
        self._loop = task.get_loop()
        self._cancel_count = task.cancelling()
        if self._watch_delay_s > 0 and (
            self._timeout_s is None or self._timeout_s > self._watch_delay_s
        ):
            self._timer = self._loop.call_later(self._watch_delay_s, self._start_watching)
        else:
            self._watch_delay_s = 0.0
            self._start_watching()
        if self._waits is not None:
            self._waits.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if self._waits is not None:
            self._waits.discard(self)
        if self.end is None:
            return False
        # an outside cancellation, in addition to ours, must propagate
        ours = self._task.uncancel() <= self._cancel_count
        return ours and kind is not None and issubclass(kind, asyncio.CancelledError)

    def finish(self, end: WaitEnd) -> None:
        """End the wait; the first reason counts."""
        if self.end is None:
            self.end = end
            self._task.cancel()

    def _start_watching(self) -> None:
        self._timer = None
        if self._receive is not None:
            self._watcher = self._loop.create_task(self._watch_disconnect(self._receive))
        if self._timeout_s is not None:
            left = self._timeout_s - self._watch_delay_s
            self._timer = self._loop.call_later(left, self.finish, WaitEnd.TIME_UP)

    async def _watch_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.finish(WaitEnd.CLIENT_GONE)
