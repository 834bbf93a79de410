"""Test that responsive endpoints get all events, and most of the room, while others hang."""

from __future__ import annotations

import pytest

from tests.chaos.webhook_crowd import crowd
from tests.support.http_stub import hang, make_stub_response, serve_stub
from tests.support.receiver import OK, WebhookReceiver
from tests.support.service_harness import open_service
from tests.support.until import wait_until
from tests.support.webhook_merchant import WebhookMerchant

pytestmark = pytest.mark.long

# hanging attempts do not time out before all other endpoints should have been served
SMALL = {"concurrency": 10, "timeout_s": 60}


async def test_responsive_endpoints_do_not_wait_for_hanging_endpoints(tmp_path):
    """Two of twenty hang, with five payments each, and would have room for five attempts at once.

    They get one each.
    """
    results = await crowd(tmp_path, 20, 5, 40, **SMALL)
    assert results["events"] == 90
    assert results["hanging"] <= 2


async def test_endpoints_that_hang_later_leave_room_for_responsive_endpoints(tmp_path):
    """While half of the room is free they can have several attempts, and then no more."""
    results = await crowd(tmp_path, 20, 5, 40, at_first=make_stub_response(204), **SMALL)
    assert results["events"] == 90
    assert results["hanging"] <= 3


async def test_partners_whose_endpoints_hang_leave_room_for_another_partner(tmp_path):
    """Each of two partners would fill half of the room; the second gets half of the rest."""
    webhooks = {"networks": ["127.0.0.0/8"], "endpoints_max": 20, **SMALL}
    async with (
        open_service(tmp_path / "home", webhooks=webhooks) as desk,
        serve_stub(hang) as silent,
        serve_stub(OK) as server,
    ):
        for attempts in (5, 7):
            hanging = WebhookMerchant(desk, await desk.tenant(), WebhookReceiver(silent))
            for number in range(20):
                await hanging.endpoint(f"/{number}")
            await hanging.pay()
            await wait_until(lambda: len(silent.requests), attempts)
        receiver = server.handler = WebhookReceiver(server)
        other = WebhookMerchant(desk, await desk.tenant(), receiver)
        await other.endpoint()
        payment_id = await other.pay()
        (event,) = await receiver.wait_events(1)
        assert event["data"]["payment_id"] == payment_id
        assert len(silent.requests) == 7
