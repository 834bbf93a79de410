"""Restarts workers that end unexpectedly, without ending the process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import StoreUnavailable
from florin_server.domain.quarantine import format_error
from florin_server.operations.context import OperationsContext
from florin_server.operations.process import WorkerFailure
from florin_server.operations.service.quarantine import is_unexpected


class _Context(OperationsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# an operator frees a full disk; retries at once do not help
_RETRY_S = 1.0
# an unexpected error doubles the pause, up to a limit; a worker that ran for long starts over
_BACKOFF_S, _BACKOFF_MAX_S = 1.0, 60.0
_HEALTHY_US = 300_000_000


async def supervise(core: _Context, name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Do work that never ends, and start it again after a pause whenever it does end.

    It waits during an outage of the store. Any other error is logged, and reported as a condition.
    CancelledError once it is canceled, also if the work's own cleanup fails then.
    """
    clock, failures = core.clock, core.worker_failures.by_worker
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
            worked = clock.steady_us() - began_us >= _HEALTHY_US
            count = 1 if worked or before is None else before.count + 1
            failures[name] = WorkerFailure(clock.now_us(), count, format_error(error))
            pause_s = min(_BACKOFF_S * 2.0 ** min(count - 1, 6), _BACKOFF_MAX_S)
            _log.exception("%s failed and restarts in %.0f s", name, pause_s)
        await clock.sleep(pause_s)


def _raise_if_cancelled(error: Exception) -> None:
    """Raise CancelledError if the task is to end: an error of a cleanup took its place.

    Otherwise the process would wait forever for a worker that was restarted.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError from error


class TurnSteps:
    """The steps of one turn of a worker.

    A step that fails unexpectedly keeps no other from its turn. Errors that pass end the turn as
    before.
    """

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._failures: Exception | None = None

    async def run(self, name: str, work: Awaitable[None]) -> None:
        """Do one step; what it raises unexpectedly is logged, and kept for the end."""
        try:
            await work
        except Exception as error:
            if not is_unexpected(error):
                raise
            _log.exception("%s: step %s failed", self._worker, name)
            self._failures = self._failures or StepFailed(f"{name}: {format_error(error)}")

    def raise_failures(self) -> None:
        """Raise StepFailed if a step failed."""
        if self._failures is not None:
            raise self._failures


class StepFailed(Exception):  # noqa: N818  (a state of the worker; the step's error is logged)
    """A step of a worker's turn failed unexpectedly; the others were done."""
