"""Test endpoints without an address, whose owners fetch their events."""

from __future__ import annotations

import pytest
import pytest_asyncio

from tests.support.http_stub import serve_stub
from tests.support.receiver import OK, WebhookReceiver
from tests.support.service_harness import open_service
from tests.support.webhook_merchant import WebhookMerchant

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("webhooks") / "home"
    webhooks = {"networks": ["127.0.0.0/8"], "timeout_s": 1, "endpoints_max": 100}
    async with open_service(home, webhooks=webhooks) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def shop(desk):
    """Open a tenant of its own, with a back end."""
    tenant = await desk.tenant()
    async with serve_stub(OK) as server:
        receiver = WebhookReceiver(server)
        server.handler = receiver
        yield WebhookMerchant(desk, tenant, receiver)


async def test_endpoint_without_a_url_is_polled_for_events(shop):
    created = await shop.call("POST", "", {})
    path = f"/{created['endpoint']['id']}/take"
    payment_id = await shop.pay("succeeded")
    (event,) = (await shop.call("POST", path, {}))["events"]
    assert event["eventId"] == f"evt_{payment_id[4:]}_0"
    # it is reserved until a receipt comes, or a minute has passed
    assert (await shop.call("POST", path, {}))["events"] == []
    receipts = [{"token": event["token"], "httpStatus": 200}]
    (event,) = (await shop.call("POST", path, {"receipts": receipts}))["events"]
    assert event["eventId"] == f"evt_{payment_id[4:]}_1"
    # a repeated receipt, or one for another event, ends nothing
    assert (await shop.call("POST", path, {"receipts": receipts}))["events"] == []
    shop.service.clock.advance(61)
    (again,) = (await shop.call("POST", path, {}))["events"]
    assert again["eventId"] == event["eventId"]
    late = [{"token": event["token"], "httpStatus": 200}]
    assert (await shop.call("POST", path, {"receipts": late}))["events"] == []
    receipts = [{"token": again["token"], "httpStatus": 200}]
    assert (await shop.call("POST", path, {"receipts": receipts}))["events"] == []
    shop.service.clock.advance(3600)
    assert (await shop.call("POST", path, {}))["events"] == []
