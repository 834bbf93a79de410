"""Work that others can ask for as often as they like."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from florin_server.domain.errors import FlorinError
from florin_server.store.engine.query import StoreError

_log = logging.getLogger(__name__)


class Paced:
    """Does work at once when it is asked for, and not again before a pause is over.

    Work that meets an outage of the store, or fails unexpectedly, is done when it is asked for the
    next time.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], pause_s: float) -> None:
        self._work = work
        self._pause_s = pause_s
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Has the work done soon."""
        self._asked.set()

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                await self._work()
            except (StoreError, FlorinError) as error:
                _log.warning("what other processes changed is looked at later: %s", error)
            except Exception:  # noqa: BLE001  (no hint stops a worker)
                _log.exception("what other processes changed is looked at later")
            # this machine's time: it keeps whoever floods us from the processor and the store
            await asyncio.sleep(self._pause_s)
