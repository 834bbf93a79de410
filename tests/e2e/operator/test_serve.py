"""`florin serve --workers 2`: two processes on the same ports, and who looks after them."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
import pytest_asyncio

from tests.support import postgres
from tests.support.processes import children, installed

pytestmark = [
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation(tmp_path_factory):
    async with installed(tmp_path_factory.mktemp("many")) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(installation):
    """The service in two processes, and a client whose connections are new each time."""
    with await asyncio.to_thread(installation.lasting, "serve", "--workers", "2") as command:
        yield command


@pytest_asyncio.fixture(loop_scope="module")
async def api(installation, served):
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield installation.rest(session)


async def final(api, payment_id: str) -> str:
    states = [state async for state in api.watch(payment_id)]
    return str(states[-1]["status"])


async def test_a_payment_succeeds_through_two_processes(installation, served, api):
    assert len(children(served.process.pid)) == 2
    for _ in range(4):
        payment_id = await installation.pay(api)
        assert await final(api, payment_id) == "succeeded"
