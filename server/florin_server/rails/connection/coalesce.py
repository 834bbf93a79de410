"""Questions asked at about the same time travel together, and equal ones are asked once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")

WINDOW_S = 0.002  # below what a buyer notices, above what a busy loop needs to collect a batch
LIMIT = 50


class Coalescer(Generic[Q, A]):
    """Collects questions for a short window, at most `limit`, and asks them as one.

    `ask` answers a list in its order; what it raises reaches everyone in that list.
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
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, question: Q) -> A:
        """Returns the answer to one question."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[A] = loop.create_future()
        self._waiting.append((question, answer))
        if len(self._waiting) >= self._limit:
            self._flush()
        elif self._timer is None:
            self._timer = loop.call_later(self._window_s, self._flush)
        return await answer

    async def close(self) -> None:
        """Waits for what was asked; questions still collected are asked at once."""
        self._flush()
        while self._running:
            await asyncio.wait(self._running)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._waiting = self._waiting, []
        if batch:
            task = asyncio.ensure_future(self._run(batch))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _run(self, batch: list[tuple[Q, asyncio.Future[A]]]) -> None:
        wanted = [(question, answer) for question, answer in batch if not answer.done()]
        if not wanted:
            return
        try:
            answers = await self._ask([question for question, _ in wanted])
        except Exception as fault:  # noqa: BLE001  (it is handed on to everyone who asked)
            for _, answer in wanted:
                if not answer.done():
                    answer.set_exception(fault)
            return
        for (_, answer), value in zip(wanted, answers, strict=True):
            if not answer.done():
                answer.set_result(value)


@dataclass(slots=True)
class _Pending(Generic[A]):
    task: asyncio.Task[A]
    waiting: int = 0


class Shared(Generic[A]):
    """Whoever asks what is being asked already waits for the same answer.

    Who gives up waiting ends the question only if nobody else waits for it.
    """

    def __init__(self) -> None:
        self._pending: dict[Hashable, _Pending[A]] = {}

    async def __call__(self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, A]]) -> A:
        """Returns what `ask` gives, or what it will give to whoever asked with an equal key."""
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = _Pending(asyncio.create_task(ask()))
        pending.waiting += 1
        try:
            return await asyncio.shield(pending.task)
        finally:
            pending.waiting -= 1
            if pending.task.done() or not pending.waiting:
                pending.task.cancel()
                if self._pending.get(key) is pending:
                    del self._pending[key]

    def forget(self) -> None:
        """Who asks from now on is told nothing that was asked before."""
        self._pending = {}
