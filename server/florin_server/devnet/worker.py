"""One thread that does the chain's work and makes it last before anybody hears of it."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from florin_server.devnet.errors import DevChainError

T = TypeVar("T")

TOGETHER: Final = 64  # jobs that share one commit, so that nobody waits for too many others


@dataclass(frozen=True, slots=True)
class _Job:
    work: Callable[[], Any]
    future: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class _Done:
    future: asyncio.Future[Any]
    result: Any
    error: BaseException | None


class Worker:
    """Runs jobs in order, and `commit` after each group of them.

    Once a commit or a job failed with DevChainError, everything does.
    """

    def __init__(self, name: str) -> None:
        self.commit: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lost: DevChainError | None = None
        self._closed = False
        self._under_way = 0  # jobs whose givers were not told yet
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """True while somebody waits for a job; told on the event loop."""
        return self._under_way > 0

    async def run(self, work: Callable[[], T]) -> T:
        """The result of a job, once it lasts."""
        if self._lost is not None:
            raise self._lost
        if self._closed:
            raise DevChainError("the chain is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._under_way += 1
        self._jobs.put(_Job(work, future))
        return await future

    async def close(self) -> None:
        """Ends after what is queued; later jobs fail."""
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        open_for_more = True
        while open_for_more:
            job = self._jobs.get()
            done: list[_Done] = []
            while job is not None:
                done.append(_attempt(job))
                if len(done) == TOGETHER or self._jobs.empty():
                    break
                job = self._jobs.get()
            open_for_more = job is not None
            if done:
                self._finish(done)

    def _finish(self, done: list[_Done]) -> None:
        if self._lost is None:
            self._lost = next((x.error for x in done if isinstance(x.error, DevChainError)), None)
        try:
            if self._lost is None:
                self.commit()
        except sqlite3.Error as error:
            self._lost = DevChainError(f"the chain cannot be written: {error}")
        if self._lost is not None:
            # memory is ahead of the file now: nothing that memory says can be trusted
            done = [_Done(one.future, None, self._lost) for one in done]
        # a loop that is gone has nobody waiting
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._deliver, done)

    def _deliver(self, done: list[_Done]) -> None:
        self._under_way -= len(done)
        for one in done:
            if one.future.done():
                continue
            if one.error is not None:
                one.future.set_exception(one.error)
            else:
                one.future.set_result(one.result)


def _attempt(job: _Job) -> _Done:
    try:
        return _Done(job.future, job.work(), None)
    except Exception as error:  # noqa: BLE001  (it is raised where the job was given)
        return _Done(job.future, None, error)
