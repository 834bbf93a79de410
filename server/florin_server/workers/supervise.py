"""Keeps workers at work: one that ends unexpectedly is started again, and ends no process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from florin_server.domain.quarantine import describe_error
from florin_server.flows.app import Core, WorkerFailure
from florin_server.flows.quarantine.quarantine import is_unexpected
from florin_server.store.engine.query import StoreUnavailable

_log = logging.getLogger(__name__)

# a full disk is emptied by somebody, not by trying again at once
_RETRY_S = 1.0
# an unexpected error doubles the pause, up to a limit; one that worked for long begins anew
_BACKOFF_S, _BACKOFF_MAX_S = 1.0, 60.0
_WORKED_US = 300_000_000


async def supervise(core: Core, name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Do work that never ends by itself, and start it again after a pause whenever it does.

    An outage of the store is waited out. Any other error is logged, and reported as a condition.
    CancelledError once it is cancelled, also if the work's own cleanup fails then.
    """
    clock, failures = core.clock, core.failures.by_worker
    while True:
        began_us, pause_s = clock.steady_us(), _RETRY_S
        try:
            await work()
        except StoreUnavailable as error:
            _raise_if_cancelled(error)
            _log.warning("%s waits: %s", name, error)
        except Exception as error:  # noqa: BLE001  (no worker stops the process)
            _raise_if_cancelled(error)
            before = failures.get(name)
            worked = clock.steady_us() - began_us >= _WORKED_US
            count = 1 if worked or before is None else before.count + 1
            failures[name] = WorkerFailure(clock.now_us(), count, describe_error(error))
            pause_s = min(_BACKOFF_S * 2.0 ** min(count - 1, 6), _BACKOFF_MAX_S)
            _log.exception("%s failed and is started again in %.0f s", name, pause_s)
        await clock.sleep(pause_s)


def _raise_if_cancelled(error: Exception) -> None:
    """Raise CancelledError if the task is to end: an error of a cleanup took its place.

    Otherwise the process would wait for good for a worker that was started again.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError from error


class Steps:
    """The steps of one turn of a worker: one that fails unexpectedly keeps no other from its turn.

    Errors that pass end the turn as before.
    """

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._failed: Exception | None = None

    async def run(self, name: str, work: Awaitable[None]) -> None:
        """Do one step; what it raises unexpectedly is logged, and kept for the end."""
        try:
            await work
        except Exception as error:
            if not is_unexpected(error):
                raise
            _log.exception("%s: step %s failed", self._worker, name)
            self._failed = self._failed or StepFailed(f"{name}: {describe_error(error)}")

    def end(self) -> None:
        """Raise StepFailed if a step failed."""
        if self._failed is not None:
            raise self._failed


class StepFailed(Exception):  # noqa: N818  (a state of the worker; the step's error is logged)
    """A step of a worker's turn failed unexpectedly; the others were done."""
