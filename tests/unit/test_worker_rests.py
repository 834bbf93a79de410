"""Who looks again and again: what came due during a look is found without another move of time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from florin_server.clock import TestClock
from florin_server.workers.housekeeping.expire import expire, forget_data, forget_gas, forget_keys
from florin_server.workers.housekeeping.prices import follow_prices
from florin_server.workers.icons.fetch_icons import forget_icons

from tests.support.until import until

HOUR_S, A_DAY_S = 3600, 86_400


class Looks:
    """A store and prices that have nothing; the time moves on in the middle of the first look."""

    def __init__(self, by_s):
        self.clock, self.by_s = TestClock(A_DAY_S * 1_000_000), by_s
        self.at_s, self.twice = [], asyncio.Event()

    async def _look(self):
        self.at_s.append(self.clock.now_us() / 1_000_000 - A_DAY_S)
        await asyncio.sleep(0)
        if len(self.at_s) == 1:
            self.clock.advance(self.by_s)
        else:
            self.twice.set()

    async def read(self, op):
        await self._look()

    async def write(self, op):
        await self._look()
        return 0

    async def refresh(self, now_us):
        await self._look()

    def app(self):
        settings = SimpleNamespace(prices=SimpleNamespace(refresh_s=HOUR_S))
        return SimpleNamespace(clock=self.clock, store=self, prices=self, settings=settings)


EVERY_S = {
    expire: 1,
    forget_keys: HOUR_S,
    forget_data: HOUR_S,
    forget_gas: HOUR_S,
    forget_icons: HOUR_S,
    follow_prices: HOUR_S,
}


@pytest.mark.parametrize("worker", EVERY_S, ids=lambda one: one.__name__)
@pytest.mark.parametrize("passed", [0.25, 1, 30])
async def test_the_next_look_is_due_by_the_beginning_of_the_last(worker, passed):
    every_s = EVERY_S[worker]
    looks = Looks(every_s * passed)
    task = asyncio.create_task(worker(looks.app()))
    try:
        if passed < 1:
            await until(lambda: looks.clock.sleepers)
            looks.clock.advance(every_s * (1 - passed))
        async with asyncio.timeout(10):
            await looks.twice.wait()
    finally:
        task.cancel()
    assert looks.at_s == [0, every_s * max(1, passed)]
