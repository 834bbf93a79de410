"""Group commit on a few connections: operations that wait share the next transaction.

Operations of a group run one after another, so that each sees the writes before it. Concurrent
transactions are the operations' own concern: they lock what they decide on. If PostgreSQL aborts a
group because of a conflict, or an operation fails after a write, everything is rolled back and each
operation is retried alone.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Any

from florin_server.db.engine.postgres.connection import PostgresConnection
from florin_server.db.engine.postgres.errors import (
    DriverError,
    is_conflict,
    is_lost,
    to_store_error,
)
from florin_server.db.engine.postgres.pool import ConnectionPool
from florin_server.db.engine.query import Operation, StoreUnavailable, T
from florin_server.db.engine.store import FaultHook
from florin_server.domain.errors import ApiError, ErrorCode

# a transaction holds its locks as long as all its operations take
_GROUP_MAX = 32
# more than this means that the database is seconds behind: an error is better than a late answer
_QUEUE = 20_000
# a conflict is retried after a growing, random pause, so that conflicting operations separate
_ATTEMPTS, _DEADLINE_S = 20, 10.0
_PAUSE_S, _PAUSE_MAX_S = 0.002, 0.2

_Job = tuple[Operation[Any], asyncio.Future[Any]]
_OperationOutcome = tuple[Any, Exception | None]


class _RetryNeeded(Exception):  # noqa: N818  (a signal, not a mistake)
    """Nothing was kept, and a retry is possible; the cause says why."""


class PostgresWriter:
    """Run operations in groups, as many at once as connections exist."""

    def __init__(self, pool: ConnectionPool, size: int, fault_hook: FaultHook) -> None:
        self._pool = pool
        self._size = size
        self._fault = fault_hook
        self._loop = asyncio.get_running_loop()
        self._jobs: deque[_Job] = deque()
        # the number of operations in each group
        self._groups: dict[asyncio.Task[None], int] = {}
        self._due = False
        self._closed = False

    @property
    def is_busy(self) -> bool:
        """Return True while an operation waits for its commit."""
        return bool(self._jobs or self._groups)

    @property
    def queued_count(self) -> int:
        """Return how many operations wait for their commit."""
        return len(self._jobs) + sum(self._groups.values())

    def submit(self, op: Operation[T]) -> asyncio.Future[T]:
        """Queue an operation; the future is done once its commit is on disk."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        if len(self._jobs) >= _QUEUE:
            raise ApiError(ErrorCode.INTERNAL_ERROR, unavailable=True, retry_after_s=1)
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.append((op, future))
        self._schedule()
        return future

    async def close(self) -> None:
        """Commit queued operations."""
        self._closed = True
        while self.is_busy:
            await asyncio.wait(self._groups) if self._groups else await asyncio.sleep(0)

    def _schedule(self) -> None:
        if not self._due:
            self._due = True
            # at the end of this loop turn, so that operations of one turn share commits
            self._loop.call_soon(self._start_groups)

    def _start_groups(self) -> None:
        self._due = False
        while self._jobs and (free := self._size - len(self._groups)):
            group = self._take_group(free)
            task = self._loop.create_task(self._run_group(group), name="store-group")
            self._groups[task] = len(group)
            task.add_done_callback(self._finish_group)

    def _take_group(self, free: int) -> list[_Job]:
        """Return the next group, with an equal share for each connection.

        An `apart` job goes alone.
        """
        group = [self._jobs.popleft()]
        count = min(_GROUP_MAX, len(self._jobs) // free + 1)
        while len(group) < count and not (group[0][0].apart or self._jobs[0][0].apart):
            group.append(self._jobs.popleft())
        return group

    def _finish_group(self, task: asyncio.Task[None]) -> None:
        self._groups.pop(task, None)
        if self._jobs:
            self._schedule()

    async def _run_group(self, group: list[_Job]) -> None:
        group = [job for job in group if not job[1].cancelled()]
        try:
            outcomes = await self._run_transaction(group)
        except _RetryNeeded:
            for job in group:
                _resolve_job(job, await self._retry_job(job))
            return
        except Exception as error:  # noqa: BLE001  (the waiting caller gets the error)
            outcomes = [(None, to_store_error(error))] * len(group)
        for job, outcome in zip(group, outcomes, strict=True):
            _resolve_job(job, outcome)

    async def _retry_job(self, job: _Job) -> _OperationOutcome:
        """Retry an operation until it has no conflict."""
        until = self._loop.time() + _DEADLINE_S
        problem: BaseException | None = None
        for attempt in range(_ATTEMPTS):
            if self._loop.time() > until:
                break
            longest = min(_PAUSE_MAX_S, _PAUSE_S * 2**attempt)
            # only so that the conflicting operations do not meet again
            await asyncio.sleep(random.uniform(0, longest))  # noqa: S311
            self._fault("retry")
            try:
                (outcome,) = await self._run_transaction([job])
            except _RetryNeeded as anew:
                problem = anew.__cause__
            except Exception as error:  # noqa: BLE001  (the waiting caller gets the error)
                return None, to_store_error(error)
            else:
                return outcome
        lost = StoreUnavailable(
            f"the operation failed again and again by conflicts with others: {problem}"
        )
        lost.__cause__ = problem
        return None, lost

    async def _run_transaction(self, group: list[_Job]) -> list[_OperationOutcome]:
        """Run operations in one transaction; the outcomes hold only once it returns."""
        connection = await self._pool.acquire()
        try:
            outcomes = await self._run_jobs(connection, group)
        except BaseException:
            await connection.rollback()
            raise
        else:
            return outcomes
        finally:
            self._pool.release(connection)

    async def _run_jobs(
        self, connection: PostgresConnection, group: list[_Job]
    ) -> list[_OperationOutcome]:
        outcomes: list[_OperationOutcome] = []
        try:
            await connection.begin(snapshot=any(op.snapshot for op, _ in group))
            for op, _ in group:
                outcomes.append(await _run_operation(connection, op, is_single=len(group) == 1))
                self._fault("op")
            self._fault("commit")
        except DriverError as error:
            # it was not committed in any case
            if is_conflict(error) or is_lost(error):
                raise _RetryNeeded from error
            if len(group) > 1:
                raise _RetryNeeded from error
            raise
        if len(group) == 1 and outcomes[0][1] is not None:
            # none of its writes stay
            await connection.rollback()
            return outcomes
        try:
            await connection.commit()
        except DriverError as error:
            if is_conflict(error):
                raise _RetryNeeded from error
            raise StoreUnavailable(f"the outcome of a commit is unknown: {error}") from error
        self._fault("committed")
        return outcomes


async def _run_operation(
    connection: PostgresConnection, op: Operation[Any], *, is_single: bool
) -> _OperationOutcome:
    """Return an operation's outcome; _RetryNeeded if it wrote before it failed in a group."""
    before = connection.changes
    try:
        return await connection.run(op), None
    except DriverError:
        raise
    except Exception as error:
        if not is_single and connection.changes != before:
            raise _RetryNeeded from error
        return None, error


def _resolve_job(job: _Job, outcome: _OperationOutcome) -> None:
    _, future = job
    result, failed = outcome
    if future.done():  # its caller was cancelled
        return
    if failed is None:
        future.set_result(result)
    else:
        future.set_exception(failed)
