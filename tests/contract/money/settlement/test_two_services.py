"""Two services on one database: one signs, both answer, and the other takes over after a death."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import aiohttp
import pytest
import pytest_asyncio
from florin_server.app.service import FlorinService

from tests.support import postgres
from tests.support.console import ConsoleUser
from tests.support.own_chain import CHAIN
from tests.support.service_pair import open_pair
from tests.support.until import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
    ),
]

TAKEN_OVER_S = 30


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two(tmp_path_factory):
    folders = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    async with open_pair(*folders, console=True) as pair:
        yield pair


async def status(service: FlorinService, payment_id: str) -> str:
    payment = await service.app.store.payments.find(payment_id)
    return "" if payment is None else str(payment.status)


async def test_sign_out_at_a_service_ends_the_session_at_its_peer(two):
    tenant = await two.service.tenant()
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as bare:
        here, there = (
            ConsoleUser(bare, item.http_url) for item in (two.service.service, two.other)
        )
        await here.sign_in(tenant.secret)
        there.cookie, there.host = here.cookie, here.host
        assert (await there.get("/console")).status == 200
        await here.fill("/console", "/console/logout")
        out = await there.get("/console")
        assert (out.status, out.location) == (303, "/console/login?back=%2Fconsole")
        # nor does a script see anything
        assert (await there.get("/console/payments/rows")).status == 401


async def test_peer_takes_over_signing_from_a_service_that_died(two):
    assert two.service.service.app.settlers[CHAIN].executors[0].has_lease
    assert not two.other.app.settlers[CHAIN].executors[0].has_lease
    payment_id = await two.create_confirmed()

    async def ended() -> bool:
        return await status(two.service.service, payment_id) == "succeeded"

    async def passing() -> None:
        two.service.clock.advance(1)

    await wait_until(ended, meanwhile=passing)
    assert await status(two.other, payment_id) == "succeeded"
    await _one_dies(two)


async def _one_dies(two):
    desk, other = two.service, two.other
    # as a killed process leaves it: no lease is released
    for task in desk.service.workers.tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    payment_id = await two.create_confirmed()
    assert await status(other, payment_id) == "processing"
    begin, sender = desk.clock.now_us(), other.app.settlers[CHAIN].executors[0]

    async def ended() -> bool:
        return await status(other, payment_id) == "succeeded"

    async def passing() -> None:
        desk.clock.advance(1)

    await wait_until(lambda: sender.has_lease, meanwhile=passing)
    assert desk.clock.now_us() - begin <= TAKEN_OVER_S * 1_000_000
    await wait_until(ended, meanwhile=passing)
