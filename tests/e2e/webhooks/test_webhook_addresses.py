"""Endpoints cannot make Florin flood one address, under any name."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.support.api import ApiCallError
from tests.support.http_stub import make_stub_response, serve_stub
from tests.support.service_harness import ORDER, open_service
from tests.support.until import wait_until
from tests.support.webhook_merchant import PATH

pytestmark = pytest.mark.long


class Crowd:
    """Keeps every request open for a moment, and counts simultaneous ones."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def __call__(self, request, out):
        self.now += 1
        self.most = max(self.most, self.now)
        # all that are sent together have arrived by then
        for _ in range(200):
            await asyncio.sleep(0)
        self.now -= 1
        await make_stub_response(204)(request, out)


async def test_hostnames_with_the_same_address_share_its_attempt_limit(tmp_path):
    webhooks = {"networks": ["127.0.0.0/8"], "host_concurrency": 2, "endpoints_max": 100}
    crowd = Crowd()
    async with AsyncExitStack() as stack:
        desk = await stack.enter_async_context(open_service(tmp_path / "home", webhooks=webhooks))
        tenant = await desk.tenant()
        key = {"Api-Key": tenant.headers["Api-Key"]}
        servers = [await stack.enter_async_context(serve_stub(crowd)) for _ in range(6)]
        for server in servers:
            body = {"url": f"http://127.0.0.1:{server.port}/"}
            await desk.rest.call("POST", PATH, key, body)
        for _ in range(5):
            await desk.rest.call("POST", "/v1/payments", tenant.headers, ORDER)
        # deliveries beyond an address's limit are retried, and do not count as failures
        await wait_until(
            lambda: all(len(server.requests) >= 5 for server in servers),
            meanwhile=lambda: asyncio.sleep(0, desk.clock.advance(1.1)),
        )
        listed = await desk.rest.call("GET", PATH, key)
        assert [endpoint["failures"] for endpoint in listed["endpoints"]] == [0] * 6
    assert crowd.most == 2


async def test_spellings_of_a_url_are_a_single_endpoint(tmp_path):
    async with open_service(tmp_path / "home") as desk:
        tenant = await desk.tenant()
        key = {"Api-Key": tenant.headers["Api-Key"]}

        async def create(url):
            return (await desk.rest.call("POST", PATH, key, {"url": url}))["endpoint"]

        other = await create("https://other.example")
        assert other["url"] == "https://other.example/"
        stored_url = (await create("https://bücher.example/straße"))["url"]
        assert stored_url == "https://xn--bcher-kva.example/stra%C3%9Fe"
        for spelling in (
            "https://bücher.example/straße",
            "HTTPS://BÜCHER.example.:443/stra%c3%9fe",
            stored_url,
            f"{stored_url}#top",
        ):
            with pytest.raises(ApiCallError) as refused:
                await create(spelling)
            assert refused.value.details["reason"] == "webhook_url_taken", spelling
            body = {"url": spelling}
            with pytest.raises(ApiCallError) as refused:
                await desk.rest.call("PATCH", f"{PATH}/{other['id']}", key, body)
            assert refused.value.details["reason"] == "webhook_url_taken", spelling
