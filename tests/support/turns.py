"""Counts the turns of a worker of a running service, to see what none of them does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from florin_server.workers.settlement.settle import ChainSettler

from tests.support.until import until


class Turns:
    """A worker rests at the end of each turn, whatever came of it."""

    def __init__(self, worker: ChainSettler) -> None:
        self.count = 0
        rest = worker._rest

        async def counted() -> None:
            self.count += 1
            await rest()

        worker._rest = counted

    async def one_more(self, meanwhile: Callable[[], Awaitable[object]]) -> None:
        """Returns once a turn has ended that began after this; `meanwhile` wakes the worker."""
        # the first that ends may have begun before
        end = self.count + 2
        await until(lambda: self.count >= end, meanwhile=meanwhile)
