"""Two services on one database share the limits that an address has used up."""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack

import aiohttp
import pytest
from florin_server.app.home import StateFolder
from florin_server.app.service import FlorinService
from florin_server.base.clock import TestClock
from florin_server.settings import LimitSettings

from tests.support import postgres
from tests.support.service import make_settings
from tests.support.store_factories import NOW_US
from tests.support.until import wait_until

pytestmark = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
)
# a process reports to others after seven of these
GUESSES = LimitSettings(failure_per_minute=60, failure_burst=60)


class Guesser:
    """An attacker who guesses keys at one service."""

    def __init__(
        self, service: FlorinService, clock: TestClock, session: aiohttp.ClientSession
    ) -> None:
        self.service, self.clock, self.session = service, clock, session

    async def tries(self, count: int) -> list[int]:
        url = f"{self.service.http_url}/v1/payments"
        result = []
        for _ in range(count):
            async with self.session.get(url, headers={"Api-Key": "florin_test_nonsense"}) as answer:
                result.append(answer.status)
        return result

    async def comes_to(self, what: str, value: int) -> None:
        """Advance time until it has received, or sent, so much."""
        sharing = self.service.app.limit_sync
        await wait_until(lambda: getattr(sharing, what), value, meanwhile=self._moment)

    async def _moment(self) -> None:
        self.clock.advance(0.05)


@pytest.fixture
async def guessers(tmp_path):
    database = postgres.get_database(tmp_path)
    homes = [tmp_path / name for name in ("one", "other")]
    StateFolder(homes[0]).open().get_or_create_secrets()
    shutil.copytree(homes[0], homes[1])
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        found_guessers = []
        for home in homes:
            clock = TestClock(NOW_US)
            chosen = {"store": database.dsn, "demo": False, "metrics_port": 0}
            service = await FlorinService.start(
                make_settings(home, limits=GUESSES, **chosen), clock=clock
            )
            stack.push_async_callback(service.stop)
            found_guessers.append(Guesser(service, clock, session))
        for guesser in found_guessers:
            await guesser.comes_to("process_count", 2)
        yield found_guessers
    await postgres.drop_database(tmp_path)


async def test_failed_authentications_count_together_across_services(guessers):
    item, other = guessers
    assert await item.tries(70) == [401] * 60 + [429] * 10
    await item.comes_to("row_count", 1)
    assert await other.tries(7) == [401] * 7
    await other.comes_to("row_count", 1)
    assert await other.tries(3) == [429] * 3
    async with item.session.get(other.service.metrics_url) as answer:
        result = await answer.text()
    assert "florin_limit_processes 2.0" in result


async def test_a_service_that_stops_leaves_the_whole_to_the_other(guessers):
    item, other = guessers
    await other.service.stop()
    await item.comes_to("process_count", 1)
    assert await item.tries(61) == [401] * 60 + [429]
