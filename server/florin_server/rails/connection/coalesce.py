"""Batch requests that arrive at about the same time, and send equal requests once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")

WINDOW_S = 0.002  # below what a buyer notices, long enough for a busy loop to collect a batch
LIMIT = 50


class RequestCoalescer(Generic[Q, A]):
    """Collect requests for a short window, at most `limit`, and send them as one batch.

    `ask` returns the answers in the order of the requests. An exception that it raises reaches
    every caller of the batch.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[Q]], Awaitable[Sequence[A]]],
        *,
        window_s: float = WINDOW_S,
        limit: int = LIMIT,
    ) -> None:
        self._ask = ask
        self._window_s = window_s
        self._limit = limit
        self._queue: list[tuple[Q, asyncio.Future[A]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, question: Q) -> A:
        """Return the answer to one request."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[A] = loop.create_future()
        self._queue.append((question, answer))
        if len(self._queue) >= self._limit:
            self._flush()
        elif self._timer is None:
            self._timer = loop.call_later(self._window_s, self._flush)
        return await answer

    async def close(self) -> None:
        """Wait for pending requests; send the requests that are still being collected at once."""
        self._flush()
        while self._running:
            await asyncio.wait(self._running)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._queue = self._queue, []
        if batch:
            task = asyncio.ensure_future(self._run(batch))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _run(self, batch: list[tuple[Q, asyncio.Future[A]]]) -> None:
        required = [(question, answer) for question, answer in batch if not answer.done()]
        if not required:
            return
        try:
            answers = await self._ask([question for question, _ in required])
        except Exception as fault:  # noqa: BLE001  (every caller receives it)
            for _, answer in required:
                if not answer.done():
                    answer.set_exception(fault)
            return
        for (_, answer), value in zip(required, answers, strict=True):
            if not answer.done():
                answer.set_result(value)


@dataclass(slots=True)
class _SharedRequest(Generic[A]):
    task: asyncio.Task[A]
    waiter_count: int = 0


class SharedRequests(Generic[A]):
    """Share one pending request among all callers with an equal key.

    A caller that stops waiting cancels the request only if no other caller waits for it.
    """

    def __init__(self) -> None:
        self._pending: dict[Hashable, _SharedRequest[A]] = {}

    async def __call__(self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, A]]) -> A:
        """Return the result of `ask`, or of the pending request with an equal key."""
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = _SharedRequest(asyncio.create_task(ask()))
        pending.waiter_count += 1
        try:
            return await asyncio.shield(pending.task)
        finally:
            pending.waiter_count -= 1
            if pending.task.done() or not pending.waiter_count:
                # it may end with an error for which no caller waits any more
                pending.task.add_done_callback(_discard_result)
                pending.task.cancel()
                if self._pending.get(key) is pending:
                    del self._pending[key]

    def clear(self) -> None:
        """Forget pending requests, so that later callers send new ones."""
        self._pending = {}


def _discard_result(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
