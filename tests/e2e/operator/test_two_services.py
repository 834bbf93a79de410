"""Two services on one database: one signs, both answer, and one goes on for the other that died."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import aiohttp
import pytest
import pytest_asyncio
from florin_server.boot.service import Service

from tests.support import postgres
from tests.support.console import Person
from tests.support.own_chain import CHAIN
from tests.support.pair import paired
from tests.support.until import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
    ),
]

TAKEN_OVER_S = 30


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two(tmp_path_factory):
    folders = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    async with paired(*folders, console=True) as pair:
        yield pair


async def status(service: Service, payment_id: str) -> str:
    found = await service.app.store.reader.payment(payment_id)
    return "" if found is None else str(found.status)


async def test_who_signs_out_at_one_is_out_at_the_other_too(two):
    tenant = await two.desk.tenant()
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as bare:
        here, there = (Person(bare, one.http_url) for one in (two.desk.service, two.other))
        await here.sign_in(tenant.secret)
        there.cookie, there.host = here.cookie, here.host
        assert (await there.get("/console")).status == 200
        await here.fill("/console", "/console/logout")
        out = await there.get("/console")
        assert (out.status, out.place) == (303, "/console/login?back=%2Fconsole")
        # nor does a script see anything
        assert (await there.get("/console/payments/rows")).status == 401


async def test_one_signs_what_the_other_accepted_until_it_dies_and_the_other_goes_on(two):
    assert two.desk.service.app.settlers[CHAIN].executors[0].leads
    assert not two.other.app.settlers[CHAIN].executors[0].leads
    payment_id = await two.confirmed()

    async def ended() -> bool:
        return await status(two.desk.service, payment_id) == "succeeded"

    async def passing() -> None:
        two.desk.clock.advance(1)

    await until(ended, meanwhile=passing)
    assert await status(two.other, payment_id) == "succeeded"
    await _one_dies(two)


async def _one_dies(two):
    desk, other = two.desk, two.other
    # as a killed process leaves it: nothing is given back
    for task in desk.service.workers.tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    payment_id = await two.confirmed()
    assert await status(other, payment_id) == "processing"
    begin, sender = desk.clock.now_us(), other.app.settlers[CHAIN].executors[0]

    async def ended() -> bool:
        return await status(other, payment_id) == "succeeded"

    async def passing() -> None:
        desk.clock.advance(1)

    await until(lambda: sender.leads, meanwhile=passing)
    assert desk.clock.now_us() - begin <= TAKEN_OVER_S * 1_000_000
    await until(ended, meanwhile=passing)
