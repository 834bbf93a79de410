"""Test polling workers: work that becomes due during a look is found without another advance."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from florin_server.app.housekeeping.prices import follow_prices
from florin_server.base.clock import TestClock
from florin_server.features.icons.worker import delete_old_icons
from florin_server.money.payments.worker import (
    delete_due_data,
    delete_lapsed_keys,
    delete_old_gas,
    expire_payments,
)

from tests.support.until import wait_until

HOUR_S, A_DAY_S = 3600, 86_400


class Looks:
    """An empty store and empty prices; the time advances during the first look."""

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
    expire_payments: 1,
    delete_lapsed_keys: HOUR_S,
    delete_due_data: HOUR_S,
    delete_old_gas: HOUR_S,
    delete_old_icons: HOUR_S,
    follow_prices: HOUR_S,
}


@pytest.mark.parametrize("worker", EVERY_S, ids=lambda item: item.__name__)
@pytest.mark.parametrize("passed", [0.25, 1, 30])
async def test_the_next_look_is_due_by_the_beginning_of_the_last(worker, passed):
    every_s = EVERY_S[worker]
    looks = Looks(every_s * passed)
    task = asyncio.create_task(worker(looks.app()))
    try:
        if passed < 1:
            await wait_until(lambda: looks.clock.sleeper_count)
            looks.clock.advance(every_s * (1 - passed))
        async with asyncio.timeout(10):
            await looks.twice.wait()
    finally:
        task.cancel()
    assert looks.at_s == [0, every_s * max(1, passed)]
