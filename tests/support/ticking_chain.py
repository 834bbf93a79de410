"""A service whose clock advances automatically until it has started, and is stopped then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from florin_server.base.clock import TestClock

from tests.support.chains import EmbeddedChains
from tests.support.until import MOVE_S


class TickingEmbeddedChains(EmbeddedChains):
    """The embedded chain of a service whose time advances until it has started.

    A worker that fails at its start is restarted only after a pause.
    """

    def __init__(self) -> None:
        super().__init__()
        self._clock: TestClock | None = None
        self._task: asyncio.Task[None] | None = None

    def clock(self, start_us: int) -> TestClock:
        self._clock = super().clock(start_us)
        return self._clock

    @asynccontextmanager
    async def ticking(self) -> AsyncIterator[None]:
        """Advance time until `stand_still`, or the end of the block."""
        self._task = asyncio.create_task(self._tick())
        try:
            yield
        finally:
            await self.stand_still()

    async def stand_still(self) -> None:
        """Stop advancing time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(MOVE_S)
            if self._clock is not None:
                self._clock.advance(1)
