"""Work that can be requested at any rate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from florin_server.db.engine.query import StoreError
from florin_server.domain.errors import ApiError

_log = logging.getLogger(__name__)


class Debouncer:
    """Runs work at once on request, and not again before a pause is over.

    Work that meets an outage of the store, or fails unexpectedly, is done at the next request.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], pause_s: float) -> None:
        self._work = work
        self._pause_s = pause_s
        self._event = asyncio.Event()

    def trigger(self) -> None:
        """Request the work soon."""
        self._event.set()

    async def run(self) -> None:
        """Run until canceled."""
        while True:
            await self._event.wait()
            self._event.clear()
            try:
                await self._work()
            except (StoreError, ApiError) as error:
                _log.warning("changes of other processes are read later: %s", error)
            except Exception:  # noqa: BLE001  (no hint stops a worker)
                _log.exception("changes of other processes are read later")
            # this machine's time: it keeps a flood of requests from the processor and the store
            await asyncio.sleep(self._pause_s)
