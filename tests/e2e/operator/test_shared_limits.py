"""Two services on one database: what an address used up at one it does not have at the other."""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack

import aiohttp
import pytest
from florin_server.boot.home import Home
from florin_server.boot.service import Service
from florin_server.clock import TestClock
from florin_server.config import LimitSettings

from tests.support import postgres
from tests.support.service import settings
from tests.support.store_kit import NOW_US
from tests.support.until import until

pytestmark = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
)
# of which a process tells others when it used seven
GUESSES = LimitSettings(failure_per_minute=60, failure_burst=60)


class Guesser:
    """Somebody who tries keys at one service."""

    def __init__(self, service: Service, clock: TestClock, session: aiohttp.ClientSession) -> None:
        self.service, self.clock, self.session = service, clock, session

    async def tries(self, count: int) -> list[int]:
        url = f"{self.service.http_url}/v1/payments"
        told = []
        for _ in range(count):
            async with self.session.get(url, headers={"Api-Key": "florin_test_nonsense"}) as answer:
                told.append(answer.status)
        return told

    async def comes_to(self, what: str, value: int) -> None:
        """Time goes on until it has heard, or told, so much."""
        sharing = self.service.app.sharing
        await until(lambda: getattr(sharing, what), value, meanwhile=self._moment)

    async def _moment(self) -> None:
        self.clock.advance(0.05)


@pytest.fixture
async def guessers(tmp_path):
    database = postgres.of(tmp_path)
    homes = [tmp_path / name for name in ("one", "other")]
    Home(homes[0]).open().secrets()
    shutil.copytree(homes[0], homes[1])
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        found = []
        for home in homes:
            clock = TestClock(NOW_US)
            chosen = {"store": database.dsn, "demo": False, "metrics_port": 0}
            service = await Service.start(settings(home, limits=GUESSES, **chosen), clock=clock)
            stack.push_async_callback(service.stop)
            found.append(Guesser(service, clock, session))
        for one in found:
            await one.comes_to("processes", 2)
        yield found
    await postgres.forget(tmp_path)


async def test_guesses_at_two_services_are_one_callers(guessers):
    one, other = guessers
    assert await one.tries(70) == [401] * 60 + [429] * 10
    await one.comes_to("rows", 1)
    assert await other.tries(7) == [401] * 7
    await other.comes_to("rows", 1)
    assert await other.tries(3) == [429] * 3
    async with one.session.get(other.service.metrics_url) as answer:
        told = await answer.text()
    assert "florin_limit_processes 2.0" in told


async def test_a_service_that_stops_leaves_the_whole_to_the_other(guessers):
    one, other = guessers
    await other.service.stop()
    await one.comes_to("processes", 1)
    assert await one.tries(61) == [401] * 60 + [429]
