"""Group commit: operations run on the event loop, their commit runs beside it.

Only the commit waits for the disk, so only the commit has a thread. Statements stay on the loop:
each statement releases the interpreter lock, and a thread that wants it back waits up to 5 ms while
the loop is busy. That would reduce thousands of operations per second to a few. Operations that
arrive during a commit form the next group.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from florin_server.db.engine.query import Operation, StoreUnavailable, T
from florin_server.db.engine.sqlite import OperationOutcome, SqliteConnection, is_locked
from florin_server.db.engine.store import FaultHook
from florin_server.domain.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

# a group blocks the event loop for about this long at most, whatever its operations do
_HOLD_S = 0.005
# the loop waits this long for a commit, about as long as a fast disk needs, then checks again
_COMMIT_GRACE_S, _PAUSE_S, _COMMIT_REGRACE_S = 0.001, 0.001, 0.0002
# how long to wait for another process's lock, by polling: SQLite's own wait would sleep in the
# loop's thread
LOCKED_S, LOCK_RETRY_S = 5.0, 0.02
# more than this means that the disk is seconds behind: an error is better than a late answer
_QUEUE = 20_000

_UNKNOWN: OperationOutcome = (None, None)
_Job = tuple[Operation[Any], asyncio.Future[Any]]


class SqliteWriter:
    """Run operations in groups, each group one durable transaction, for one event loop.

    `on_group_end` is called after each group, kept or not, before its callers get their results.
    """

    def __init__(
        self, connection: SqliteConnection, fault_hook: FaultHook, on_group_end: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._fault = fault_hook
        self._ended = on_group_end
        self._loop = asyncio.get_running_loop()
        self._jobs: deque[_Job] = deque()
        self._group: list[tuple[asyncio.Future[Any], OperationOutcome]] = []
        self._locked_at: float | None = None
        self._refuses = False
        self._busy = False  # a group is about to run, or is being committed
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self._commits: SimpleQueue[bool] = SimpleQueue()
        self._error: Exception | None = None
        self._done = threading.Lock()
        self._done.acquire()
        self._thread = threading.Thread(target=self._commit, name="store-commit", daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Return True while an operation waits for its commit."""
        return self._busy

    @property
    def queued_count(self) -> int:
        """Return how many operations wait for their commit."""
        return len(self._jobs) + len(self._group)

    def submit(self, op: Operation[T]) -> asyncio.Future[T]:
        """Queue an operation; the future is done once its commit is on disk."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        if len(self._jobs) >= _QUEUE:
            raise ApiError(ErrorCode.INTERNAL_ERROR, unavailable=True, retry_after_s=1)
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.append((op, future))
        if not self._busy:
            self._busy = True
            self._idle.clear()
            # at the end of this loop turn, so that all operations of the turn share the commit
            self._loop.call_soon(self._run)
        return future

    async def close(self) -> None:
        """Commit queued operations and end the thread."""
        self._closed = True
        await self._idle.wait()
        self._commits.put(False)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        try:
            self._connection.command("BEGIN IMMEDIATE")
            self._locked_at, self._refuses = None, False
            until = time.monotonic() + _HOLD_S
            while self._jobs:
                self._run_job(*self._jobs.popleft())
                if time.monotonic() > until:
                    break
        except Exception as error:  # noqa: BLE001  (the waiting caller gets the error)
            if is_locked(error) and not self._group:
                self._wait_for_lock(error)
            else:
                self._finish_group(error)
            return
        self._commits.put(True)
        self._yield_to_commit(_COMMIT_GRACE_S)

    def _wait_for_lock(self, error: Exception) -> None:
        """Poll again later; refuse queued operations once the lock is held too long."""
        now = time.monotonic()
        if self._locked_at is None:
            self._locked_at = now
        if now - self._locked_at < LOCKED_S:
            self._loop.call_later(LOCK_RETRY_S, self._run)
            return
        # later calls try once, and fail at once while the lock is held
        self._group = [(future, _UNKNOWN) for _, future in self._jobs]
        self._jobs.clear()
        if not self._refuses:
            logger.warning("another process holds the write lock of the store: end that process")
            self._refuses = True
        self._finish_group(error)

    def _run_job(self, op: Operation[Any], future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            return
        # a member of the group even if this never returns
        self._group.append((future, _UNKNOWN))
        self._group[-1] = (future, self._connection.attempt(op))
        self._fault("op")

    def _yield_to_commit(self, seconds: float) -> None:
        """Release the interpreter to the commit, which a busy loop would keep from it."""
        if self._done.acquire(timeout=seconds):
            self._finish_group(self._error)
        else:
            self._loop.call_later(_PAUSE_S, self._yield_to_commit, _COMMIT_REGRACE_S)

    def _commit(self) -> None:
        while self._commits.get():
            self._error = None
            try:
                self._fault("commit")
                self._connection.command("COMMIT")
                self._fault("committed")
            except Exception as error:  # noqa: BLE001  (the waiting caller gets the error)
                self._error = error
            self._done.release()

    def _finish_group(self, error: Exception | None) -> None:
        group, self._group = self._group, []
        if error is not None:
            self._connection.rollback()
            lost = StoreUnavailable(f"the store could not commit: {error}")
            lost.__cause__ = error
            group = [(future, (None, lost)) for future, _ in group]
        self._ended()
        for future, (result, failed) in group:
            if future.done():  # its caller was cancelled
                continue
            if failed is None:
                future.set_result(result)
            else:
                future.set_exception(failed)
        if self._jobs:
            # not at once: a long queue must not keep the loop from its other work
            self._loop.call_soon(self._run)
        else:
            self._busy = False
            self._idle.set()
