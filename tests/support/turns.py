"""Waits for the turns of a worker of a running service, to see what none of them does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from florin_server.flows.app import Settler

from tests.support.until import until


async def one_more_turn(worker: Settler, meanwhile: Callable[[], Awaitable[object]]) -> None:
    """Returns once a turn has ended that began after this; `meanwhile` wakes the worker."""
    # the first that ends may have begun before
    end = worker.health().turns + 2
    await until(lambda: worker.health().turns >= end, meanwhile=meanwhile)
