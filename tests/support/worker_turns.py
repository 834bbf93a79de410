"""Waits for the turns of a worker, to see the effect of each or of none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from florin_server.operations.roles import LeasedWorker

from tests.support.until import wait_until

# a turn is short; after this time it hangs
_TURN_S = 60


async def wait_turn(turn: asyncio.Event, worker: asyncio.Task[None]) -> None:
    """Wait for the end of a turn; raise the error that ends the worker."""
    waits = asyncio.create_task(turn.wait())
    await asyncio.wait({waits, worker}, timeout=_TURN_S, return_when=asyncio.FIRST_COMPLETED)
    if waits.done():
        return
    waits.cancel()
    assert worker.done(), f"a turn does not end within {_TURN_S} s"
    await worker


async def wait_next_turn(worker: LeasedWorker, meanwhile: Callable[[], Awaitable[object]]) -> None:
    """Return once a turn has ended that began after this call; `meanwhile` wakes the worker."""
    # the first to end may have started before
    end = worker.health().turn_count + 2
    await wait_until(lambda: worker.health().turn_count >= end, meanwhile=meanwhile)
