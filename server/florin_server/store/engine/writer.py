"""Group commit: operations run on the event loop, their commit runs beside it.

Only the commit waits for the disk, so only the commit has a thread. Statements stay on the loop:
each of them gives up the interpreter's lock, and a thread that wants it back waits up to 5 ms
while the loop is busy, which would make a few operations per second out of thousands. Whatever is
asked for during a commit becomes the next group.
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

from florin_server.domain.errors import Code, FlorinError
from florin_server.store.engine.query import Operation, StoreUnavailable, T
from florin_server.store.engine.sqlite import Connection, Outcome, is_locked
from florin_server.store.engine.store import Fault

logger = logging.getLogger(__name__)

# a group holds the event loop for about so long at most, whatever its operations do
_HOLD_S = 0.005
# the loop waits so long for a commit, about as long as a fast disk needs, then looks again
_LEND_S, _PAUSE_S, _LEND_AGAIN_S = 0.001, 0.001, 0.0002
# a lock of another process is waited for so long, by looking again: SQLite's own wait would sleep
# in the thread of the loop
LOCKED_S, LOOK_AGAIN_S = 5.0, 0.02
# more than this means that the disk is seconds behind: better refused than answered too late
_QUEUE = 20_000

_UNKNOWN: Outcome = (None, None)
_Job = tuple[Operation[Any], asyncio.Future[Any]]


class Writer:
    """Runs operations in groups, each group one durable transaction, for one event loop.

    `ended` is called after each group, before its callers are told, whether or not it was kept.
    """

    def __init__(self, connection: Connection, fault: Fault, ended: Callable[[], None]) -> None:
        self._connection = connection
        self._fault = fault
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._jobs: deque[_Job] = deque()
        self._group: list[tuple[asyncio.Future[Any], Outcome]] = []
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
    def busy(self) -> bool:
        """True while an operation waits for its commit."""
        return self._busy

    @property
    def queued(self) -> int:
        """How many operations wait for their commit."""
        return len(self._jobs) + len(self._group)

    def submit(self, op: Operation[T]) -> asyncio.Future[T]:
        """Queues an operation; the future is done once its commit is on disk."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        if len(self._jobs) >= _QUEUE:
            raise FlorinError(Code.INTERNAL_ERROR, unavailable=True, retry_after_s=1)
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.append((op, future))
        if not self._busy:
            self._busy = True
            self._idle.clear()
            # at the end of this turn, so that everybody who asks in it shares the commit
            self._loop.call_soon(self._run)
        return future

    async def close(self) -> None:
        """Commits what is queued and ends the thread."""
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
                self._run_one(*self._jobs.popleft())
                if time.monotonic() > until:
                    break
        except Exception as error:  # noqa: BLE001  (whoever waits has to be told)
            if is_locked(error) and not self._group:
                self._wait_for_lock(error)
            else:
                self._committed(error)
            return
        self._commits.put(True)
        self._lend(_LEND_S)

    def _wait_for_lock(self, error: Exception) -> None:
        """Look again later; once the lock was held for too long, refuse what is queued."""
        now = time.monotonic()
        if self._locked_at is None:
            self._locked_at = now
        if now - self._locked_at < LOCKED_S:
            self._loop.call_later(LOOK_AGAIN_S, self._run)
            return
        # later calls try once, and are refused at once while it lasts
        self._group = [(future, _UNKNOWN) for _, future in self._jobs]
        self._jobs.clear()
        if not self._refuses:
            logger.warning("another process holds the write lock of the store: end that process")
            self._refuses = True
        self._committed(error)

    def _run_one(self, op: Operation[Any], future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            return
        # a member of the group even if this never returns
        self._group.append((future, _UNKNOWN))
        self._group[-1] = (future, self._connection.attempt(op))
        self._fault("op")

    def _lend(self, seconds: float) -> None:
        """Lets the commit have the interpreter, which a busy loop would keep from it."""
        if self._done.acquire(timeout=seconds):
            self._committed(self._error)
        else:
            self._loop.call_later(_PAUSE_S, self._lend, _LEND_AGAIN_S)

    def _commit(self) -> None:
        while self._commits.get():
            self._error = None
            try:
                self._fault("commit")
                self._connection.command("COMMIT")
                self._fault("committed")
            except Exception as error:  # noqa: BLE001  (whoever waits has to be told)
                self._error = error
            self._done.release()

    def _committed(self, error: Exception | None) -> None:
        group, self._group = self._group, []
        if error is not None:
            self._connection.give_up()
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
