"""Endpoints cannot have one address flooded, whatever they call it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.support.answering import answering, answers
from tests.support.api import Refused
from tests.support.desk import ORDER, opened
from tests.support.until import until
from tests.support.webhook_shop import PATH

pytestmark = pytest.mark.long


class Crowd:
    """Holds every request for a moment, and counts how many it has at a time."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def __call__(self, request, out):
        self.now += 1
        self.most = max(self.most, self.now)
        # all that are sent together are here by then
        for _ in range(200):
            await asyncio.sleep(0)
        self.now -= 1
        await answers(204)(request, out)


async def test_many_names_of_one_address_have_as_many_attempts_as_one(tmp_path):
    webhooks = {"networks": ["127.0.0.0/8"], "host_concurrency": 2, "endpoints_max": 100}
    crowd = Crowd()
    async with AsyncExitStack() as stack:
        desk = await stack.enter_async_context(opened(tmp_path / "home", webhooks=webhooks))
        tenant = await desk.tenant()
        key = {"Api-Key": tenant.headers["Api-Key"]}
        servers = [await stack.enter_async_context(answering(crowd)) for _ in range(6)]
        for server in servers:
            body = {"url": f"http://127.0.0.1:{server.port}/"}
            await desk.rest.call("POST", PATH, key, body)
        for _ in range(5):
            await desk.rest.call("POST", "/v1/payments", tenant.headers, ORDER)
        # what an address had no room for is tried again, and counts as no failure
        await until(
            lambda: all(len(server.came) >= 5 for server in servers),
            meanwhile=lambda: asyncio.sleep(0, desk.clock.advance(1.1)),
        )
        listed = await desk.rest.call("GET", PATH, key)
        assert [one["failures"] for one in listed["endpoints"]] == [0] * 6
    assert crowd.most == 2


async def test_spellings_of_a_url_are_one_endpoint(tmp_path):
    async with opened(tmp_path / "home") as desk:
        tenant = await desk.tenant()
        key = {"Api-Key": tenant.headers["Api-Key"]}

        async def create(url):
            return (await desk.rest.call("POST", PATH, key, {"url": url}))["endpoint"]

        other = await create("https://other.example")
        assert other["url"] == "https://other.example/"
        kept = (await create("https://bücher.example/straße"))["url"]
        assert kept == "https://xn--bcher-kva.example/stra%C3%9Fe"
        for spelling in (
            "https://bücher.example/straße",
            "HTTPS://BÜCHER.example.:443/stra%c3%9fe",
            kept,
            f"{kept}#top",
        ):
            with pytest.raises(Refused) as refused:
                await create(spelling)
            assert refused.value.details["reason"] == "webhook_url_taken", spelling
            body = {"url": spelling}
            with pytest.raises(Refused) as refused:
                await desk.rest.call("PATCH", f"{PATH}/{other['id']}", key, body)
            assert refused.value.details["reason"] == "webhook_url_taken", spelling
