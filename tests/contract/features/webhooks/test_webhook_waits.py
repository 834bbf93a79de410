"""Test what waits for an endpoint in a running service: for how long, and how much."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin_server.features.webhooks.store import replays

from tests.support.api import ApiCallError
from tests.support.http_stub import make_stub_response, serve_stub
from tests.support.receiver import OK, WebhookReceiver
from tests.support.service_harness import open_service
from tests.support.webhook_merchant import WebhookMerchant

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("webhooks") / "home"
    async with open_service(home, webhooks={"networks": ["127.0.0.0/8"], "timeout_s": 1}) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def shop(desk):
    tenant = await desk.tenant()
    async with serve_stub(OK) as server:
        receiver = WebhookReceiver(server)
        server.handler = receiver
        yield WebhookMerchant(desk, tenant, receiver)


async def test_time_that_passes_while_it_is_looked_is_not_waited_for_once_more(shop, monkeypatch):
    payment_id = await shop.put_off()
    store = shop.service.service.app.store
    read, passed = store.read, []

    async def slow(op):
        result = await read(op)
        if op.steps.__name__ == "is_due" and not passed:
            passed.append(op)
            shop.service.clock.advance(61)
        return result

    monkeypatch.setattr(type(store), "read", lambda _, op: slow(op))
    shop.service.clock.advance(1)
    (event,) = await shop.receiver.wait_events(1)
    assert event["data"]["payment_id"] == payment_id
    assert passed


async def test_no_more_waits_for_an_endpoint_than_may(shop, monkeypatch):
    created = await shop.endpoint()
    endpoint_id = created["endpoint"]["id"]
    shop.receiver.handler = make_stub_response(500)
    await shop.pay()
    await shop.wait_failed(endpoint_id)
    monkeypatch.setattr(replays, "WAITING_MAX", 1)
    body = {"since": "2020-01-01T00:00:00Z"}
    with pytest.raises(ApiCallError) as refused:
        await shop.call("POST", f"/{endpoint_id}/replay-since", body)
    assert (refused.value.http, refused.value.code) == (429, "rate_limited")
    # deliveries of a paused endpoint wait until it is resumed, and so would a repeated replay
    await shop.call("PATCH", f"/{endpoint_id}", {"paused": True})
    with pytest.raises(ApiCallError) as refused:
        await shop.call("POST", f"/{endpoint_id}/replay-since", body)
    assert (refused.value.code, refused.value.message) == (
        "invalid_state",
        f"Endpoint {endpoint_id} is paused: resume it first",
    )
