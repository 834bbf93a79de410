"""Long polls and streams: each ends with the change that it waits for, never by the clock."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.service import wait_open_responses
from tests.support.service_harness import DEPLOYED, ORDER

LONG = "maxPollMs=600000"

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_every_status_path_is_held_until_the_status_changes(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    polls = [
        asyncio.create_task(desk.ask("GET", f"{path}?{LONG}", {**headers, **profile}))
        for path, headers in (
            (f"/v1/gateway/payment/{payment_id}/status", desk.rest.wallet),
            (f"/v1/payments/{payment_id}/status", desk.rest.merchant),
            (f"/v1/merchant/payment/{payment_id}/status", desk.rest.merchant),
        )
        for profile in ({}, DEPLOYED)
    ]
    await wait_open_responses(desk.service, 6)
    await desk.rest.merchant_cancel(payment_id)
    for answer in await asyncio.wait_for(asyncio.gather(*polls), 20):
        assert answer.body == {"status": "cancelled", "isFinal": True, "info": None}
    await wait_open_responses(desk.service, 0)


async def test_final_status_is_returned_at_once(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    await desk.rest.cancel(payment_id)
    path = f"/v1/gateway/payment/{payment_id}/status?{LONG}"
    answer = await asyncio.wait_for(desk.ask("GET", path, desk.rest.wallet), 20)
    assert answer.body["status"] == "cancelled"


async def test_status_is_returned_unchanged_when_the_poll_times_out(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    for wait in ("0", "1", "00001"):
        path = f"/v1/gateway/payment/{payment_id}/status?maxPollMs={wait}"
        answer = await desk.ask("GET", path, desk.rest.wallet)
        assert answer.body["status"] == "requires_action"
        assert answer.body["pollInMs"] == 1000


async def test_a_confirm_is_held_until_the_end(desk):
    offer = await desk.offer()
    results = [{"type": "walletRpc", "data": offer.outputs}]
    answer = await asyncio.wait_for(
        desk.ask(
            "POST",
            f"/v1/gateway/payment/{offer.payment_id}/confirm?{LONG}",
            desk.rest.wallet,
            {"optionId": offer.option_id, "results": results},
        ),
        20,
    )
    assert answer.body["status"] == "succeeded"
    assert answer.body["info"]["txId"].startswith("0x")


async def test_a_status_is_held_through_expiry(desk):
    payment_id = (await desk.rest.create({**ORDER, "expiresAt": desk.now + 5}))["paymentId"]
    path = f"/v1/gateway/payment/{payment_id}/status?{LONG}"
    poll = asyncio.create_task(desk.ask("GET", path, desk.rest.wallet))
    await wait_open_responses(desk.service, 1)
    desk.clock.advance(5)
    answer = await asyncio.wait_for(poll, 20)
    assert answer.body == {"status": "expired", "isFinal": True, "info": None}


async def test_a_client_that_leaves_leaves_no_watcher(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    side = f"/v1/gateway/payment/{payment_id}"
    calls = [
        asyncio.create_task(desk.ask("GET", f"{side}/{call}", desk.rest.wallet))
        for call in (f"status?{LONG}", "events")
    ]
    await wait_open_responses(desk.service, 2)
    for call in calls:
        call.cancel()
    await wait_open_responses(desk.service, 0)
