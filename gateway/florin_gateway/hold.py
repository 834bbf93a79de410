"""Waiting that ends early: when the client leaves, when time is up, when the gateway stops.

One hold stands for the current task's stay inside a `with` block. Whatever comes first cancels
the task; the block then ends quietly and the hold tells why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from enum import Enum, auto
from types import TracebackType
from typing import Any, Self

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class End(Enum):
    """Why a hold ended before its block did."""

    TIME_UP = auto()
    CLIENT_GONE = auto()
    STOPPED = auto()


class Hold:
    """The current task, cancelled at the first of three events.

    `seconds` None means no time limit, `receive` None that the client may leave. The client is
    watched from `patience_s` on, so that a quick call costs one timer and no second task. A hold
    in `held` is ended by whoever stops the gateway.
    """

    __slots__ = (
        "_cancelling",
        "_held",
        "_loop",
        "_patience",
        "_receive",
        "_seconds",
        "_task",
        "_timer",
        "_watcher",
        "end",
    )

    def __init__(
        self,
        receive: Receive | None,
        *,
        seconds: float | None = None,
        patience_s: float = 0.0,
        held: set[Hold] | None = None,
    ) -> None:
        self.end: End | None = None
        self._receive = receive
        self._seconds = seconds
        self._patience = patience_s if receive is not None else 0.0
        self._held = held
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a hold belongs to a task")
        self._task = task
        self._loop = task.get_loop()
        self._cancelling = task.cancelling()
        if self._patience > 0 and (self._seconds is None or self._seconds > self._patience):
            self._timer = self._loop.call_later(self._patience, self._lose_patience)
        else:
            self._patience = 0.0
            self._lose_patience()
        if self._held is not None:
            self._held.add(self)
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
        if self._held is not None:
            self._held.discard(self)
        if self.end is None:
            return False
        # a cancellation from outside, on top of ours, must still come through
        ours = self._task.uncancel() <= self._cancelling
        return ours and kind is not None and issubclass(kind, asyncio.CancelledError)

    def finish(self, end: End) -> None:
        """End the wait; the first reason counts."""
        if self.end is None:
            self.end = end
            self._task.cancel()

    def _lose_patience(self) -> None:
        self._timer = None
        if self._receive is not None:
            self._watcher = self._loop.create_task(self._watch(self._receive))
        if self._seconds is not None:
            left = self._seconds - self._patience
            self._timer = self._loop.call_later(left, self.finish, End.TIME_UP)

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.finish(End.CLIENT_GONE)
