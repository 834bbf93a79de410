"""A thread that runs the chain's jobs and makes them durable before it returns results."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from florin_sandbox.devnet.errors import DevChainError

T = TypeVar("T")

JOBS_TOGETHER_MAX: Final = (
    64  # jobs that share one commit, so that no job waits for too many others
)


@dataclass(frozen=True, slots=True)
class _WorkerJob:
    work: Callable[[], Any]
    future: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class _JobResult:
    future: asyncio.Future[Any]
    result: Any
    error: BaseException | None


class ChainWorker:
    """Run jobs in order, and `commit` after each group.

    Once a commit or a job failed with DevChainError, every later job fails.
    """

    def __init__(self, name: str) -> None:
        self.commit: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_WorkerJob | None] = queue.SimpleQueue()
        self._failure: DevChainError | None = None
        self._closed = False
        self._pending_count = 0  # jobs whose callers have no result yet
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Return True while a caller waits for a job; call it on the event loop."""
        return self._pending_count > 0

    async def run_job(self, work: Callable[[], T]) -> T:
        """Return the result of a job, once it is durable."""
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise DevChainError("the chain is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._pending_count += 1
        self._jobs.put(_WorkerJob(work, future))
        return await future

    async def close(self) -> None:
        """End after the queued jobs; later jobs fail."""
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        open_for_more = True
        while open_for_more:
            job = self._jobs.get()
            done: list[_JobResult] = []
            while job is not None:
                done.append(_run_job(job))
                if len(done) == JOBS_TOGETHER_MAX or self._jobs.empty():
                    break
                job = self._jobs.get()
            open_for_more = job is not None
            if done:
                self._finish(done)

    def _finish(self, results: list[_JobResult]) -> None:
        if self._failure is None:
            self._failure = next(
                (x.error for x in results if isinstance(x.error, DevChainError)), None
            )
        try:
            if self._failure is None:
                self.commit()
        except sqlite3.Error as error:
            self._failure = DevChainError(f"the chain cannot be written: {error}")
        if self._failure is not None:
            # memory is ahead of the file now: no value in memory can be trusted
            results = [_JobResult(job_result.future, None, self._failure) for job_result in results]
        # a closed loop has no waiting callers
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._deliver, results)

    def _deliver(self, results: list[_JobResult]) -> None:
        self._pending_count -= len(results)
        for job_result in results:
            if job_result.future.done():
                continue
            if job_result.error is not None:
                job_result.future.set_exception(job_result.error)
            else:
                job_result.future.set_result(job_result.result)


def _run_job(job: _WorkerJob) -> _JobResult:
    try:
        return _JobResult(job.future, job.work(), None)
    except Exception as error:  # noqa: BLE001  (it is raised for the job's caller)
        return _JobResult(job.future, None, error)
