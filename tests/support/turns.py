"""Waits for the turns of a worker, to see what each, or none of them, does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from florin_server.flows.app import Settler

from tests.support.until import until

# a turn takes a moment; what does not end by then never does
_TURN_S = 60


async def turned(turn: asyncio.Event, worker: asyncio.Task[None]) -> None:
    """Waits for the end of a turn; whatever ends the worker itself is raised."""
    waits = asyncio.create_task(turn.wait())
    await asyncio.wait({waits, worker}, timeout=_TURN_S, return_when=asyncio.FIRST_COMPLETED)
    if waits.done():
        return
    waits.cancel()
    assert worker.done(), f"a turn does not end within {_TURN_S} s"
    await worker


async def one_more_turn(worker: Settler, meanwhile: Callable[[], Awaitable[object]]) -> None:
    """Returns once a turn has ended that began after this; `meanwhile` wakes the worker."""
    # the first that ends may have begun before
    end = worker.health().turns + 2
    await until(lambda: worker.health().turns >= end, meanwhile=meanwhile)
