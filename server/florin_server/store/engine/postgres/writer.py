"""Group commit on a few connections: whatever waits when one is free shares its transaction.

Operations of a group run one after the other, so that each sees what those before it wrote. What
happens in other transactions meanwhile is the operations' own concern: they lock what they decide
on. If PostgreSQL gives a group up for another transaction, or one of its operations fails after it
has written, everything is rolled back, and each of them is begun anew by itself.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Any

from florin_server.domain.errors import Code, FlorinError
from florin_server.store.engine.postgres.connection import Connection
from florin_server.store.engine.postgres.errors import (
    DriverError,
    is_lost,
    met_another,
    to_store_error,
)
from florin_server.store.engine.postgres.pool import Pool
from florin_server.store.engine.query import Operation, StoreUnavailable, T
from florin_server.store.engine.store import Fault

# a transaction holds its locks as long as all of its operations take
_GROUP_MAX = 32
# more than this means that the database is seconds behind: better refused than answered too late
_QUEUE = 20_000
# who met others tries again after a while that grows, with chance in it so that they part
_ATTEMPTS, _DEADLINE_S = 20, 10.0
_PAUSE_S, _PAUSE_MAX_S = 0.002, 0.2

_Job = tuple[Operation[Any], asyncio.Future[Any]]
_Outcome = tuple[Any, Exception | None]


class _Anew(Exception):  # noqa: N818  (tells what to do)
    """Nothing was kept, and it can be tried once more; the cause says why."""


class Writer:
    """Runs operations in groups, so many at once as there are connections."""

    def __init__(self, pool: Pool, size: int, fault: Fault) -> None:
        self._pool = pool
        self._size = size
        self._fault = fault
        self._loop = asyncio.get_running_loop()
        self._jobs: deque[_Job] = deque()
        # with how many operations each has
        self._groups: dict[asyncio.Task[None], int] = {}
        self._due = False
        self._closed = False

    @property
    def busy(self) -> bool:
        """True while an operation waits for its commit."""
        return bool(self._jobs or self._groups)

    @property
    def queued(self) -> int:
        """How many operations wait for their commit."""
        return len(self._jobs) + sum(self._groups.values())

    def submit(self, op: Operation[T]) -> asyncio.Future[T]:
        """Queues an operation; the future is done once its commit is on disk."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        if len(self._jobs) >= _QUEUE:
            raise FlorinError(Code.INTERNAL_ERROR, unavailable=True, retry_after_s=1)
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.append((op, future))
        self._look()
        return future

    async def close(self) -> None:
        """Commits what is queued."""
        self._closed = True
        while self.busy:
            await asyncio.wait(self._groups) if self._groups else await asyncio.sleep(0)

    def _look(self) -> None:
        if not self._due:
            self._due = True
            # at the end of this turn, so that those who ask in it share commits
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._due = False
        while self._jobs and (free := self._size - len(self._groups)):
            group = self._group(free)
            task = self._loop.create_task(self._serve(group), name="store-group")
            self._groups[task] = len(group)
            task.add_done_callback(self._over)

    def _group(self, free: int) -> list[_Job]:
        """The next ones, so many that the others get as many; who wants to be apart goes alone."""
        group = [self._jobs.popleft()]
        count = min(_GROUP_MAX, len(self._jobs) // free + 1)
        while len(group) < count and not (group[0][0].apart or self._jobs[0][0].apart):
            group.append(self._jobs.popleft())
        return group

    def _over(self, task: asyncio.Task[None]) -> None:
        self._groups.pop(task, None)
        if self._jobs:
            self._look()

    async def _serve(self, group: list[_Job]) -> None:
        group = [job for job in group if not job[1].cancelled()]
        try:
            outcomes = await self._together(group)
        except _Anew:
            for job in group:
                _tell(job, await self._alone(job))
            return
        except Exception as error:  # noqa: BLE001  (whoever waits has to be told)
            outcomes = [(None, to_store_error(error))] * len(group)
        for job, outcome in zip(group, outcomes, strict=True):
            _tell(job, outcome)

    async def _alone(self, job: _Job) -> _Outcome:
        """Begins an operation anew until it meets nobody."""
        until = self._loop.time() + _DEADLINE_S
        problem: BaseException | None = None
        for attempt in range(_ATTEMPTS):
            if self._loop.time() > until:
                break
            longest = min(_PAUSE_MAX_S, _PAUSE_S * 2**attempt)
            # only so that those who met do not meet again
            await asyncio.sleep(random.uniform(0, longest))  # noqa: S311
            self._fault("retry")
            try:
                (outcome,) = await self._together([job])
            except _Anew as anew:
                problem = anew.__cause__
            except Exception as error:  # noqa: BLE001  (whoever waits has to be told)
                return None, to_store_error(error)
            else:
                return outcome
        lost = StoreUnavailable(f"the operation met others again and again: {problem}")
        lost.__cause__ = problem
        return None, lost

    async def _together(self, group: list[_Job]) -> list[_Outcome]:
        """Runs operations in one transaction; what each came to is not true before it returns."""
        connection = await self._pool.take()
        try:
            outcomes = await self._run(connection, group)
        except BaseException:
            await connection.give_up()
            raise
        else:
            return outcomes
        finally:
            self._pool.give_back(connection)

    async def _run(self, connection: Connection, group: list[_Job]) -> list[_Outcome]:
        outcomes: list[_Outcome] = []
        try:
            await connection.begin(snapshot=any(op.snapshot for op, _ in group))
            for op, _ in group:
                outcomes.append(await _attempt(connection, op, alone=len(group) == 1))
                self._fault("op")
            self._fault("commit")
        except DriverError as error:
            # it was not committed, whatever happened
            if met_another(error) or is_lost(error):
                raise _Anew from error
            if len(group) > 1:
                raise _Anew from error
            raise
        if len(group) == 1 and outcomes[0][1] is not None:
            # nothing of it stays
            await connection.give_up()
            return outcomes
        try:
            await connection.commit()
        except DriverError as error:
            if met_another(error):
                raise _Anew from error
            raise StoreUnavailable(f"it is not known what became of a commit: {error}") from error
        self._fault("committed")
        return outcomes


async def _attempt(connection: Connection, op: Operation[Any], *, alone: bool) -> _Outcome:
    """What an operation comes to; _Anew if it wrote before it failed, among others."""
    before = connection.changes
    try:
        return await connection.run(op), None
    except DriverError:
        raise
    except Exception as error:
        if not alone and connection.changes != before:
            raise _Anew from error
        return None, error


def _tell(job: _Job, outcome: _Outcome) -> None:
    _, future = job
    result, failed = outcome
    if future.done():  # its caller was cancelled
        return
    if failed is None:
        future.set_result(result)
    else:
        future.set_exception(failed)
