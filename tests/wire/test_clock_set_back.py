"""The server's clock is set back two hours while it runs: callers are served as before."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio
from florin_server.settings import LimitSettings

from tests.support.service_harness import CREATE, ORDER, PartnerTenant, ServiceHarness, open_service
from tests.support.until import wait_until

BACK_S = 7200
# for each kind, one more call than a test makes before
SMALL = LimitSettings(
    key_per_minute=1,
    key_burst=20,
    address_per_minute=1,
    address_burst=30,
    app_per_minute=1,
    app_burst=20,
    payment_per_minute=1,
    payment_burst=3,
    failure_per_minute=1,
    failure_burst=2,
    page_per_minute=1,
    page_burst=2,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("shop"), limits=SMALL) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(desk) -> PartnerTenant:
    # limits that the previous test used up are refilled
    desk.clock.advance(3600)
    return await desk.tenant()


async def statuses(desk: ServiceHarness, payment_id: str, tenant: PartnerTenant) -> dict[str, int]:
    """Return the status of one call of each limited kind."""
    wallet = {"App-Id": desk.env["FLORIN_APP_ID"], "Client-Id": "client"}
    calls = {
        "create": ("POST", CREATE, tenant.headers, ORDER),
        "read": ("GET", f"/v1/payments/{payment_id}", tenant.headers, None),
        "wallet": ("GET", f"/v1/gateway/payment/{payment_id}", wallet, None),
        "options": (
            "POST",
            f"/v1/gateway/payment/{payment_id}/options",
            wallet,
            {"accounts": []},
        ),
        "failure": ("GET", f"/v1/payments/{payment_id}", {"Api-Key": "wrong"}, None),
        "page": ("GET", f"/{payment_id}", {"Accept": "text/html"}, None),
    }
    return {
        name: (await desk.ask(method, path, headers, body)).status
        for name, (method, path, headers, body) in calls.items()
    }


async def test_callers_are_served_after_the_clock_was_set_back(desk, tenant):
    payment_id = (await created_by(desk, tenant))["paymentId"]
    before = await statuses(desk, payment_id, tenant)
    assert set(before.values()) <= {200, 201, 401}
    desk.clock.set_back(BACK_S)
    try:
        # the second call of a kind whose burst is two
        assert await statuses(desk, payment_id, tenant) == before
    finally:
        desk.clock.set_back(-BACK_S)


async def test_limit_that_was_reached_opens_in_its_usual_time(desk, tenant):
    payment_id = (await created_by(desk, tenant))["paymentId"]
    for _ in range(3):
        failure = (await statuses(desk, payment_id, tenant))["failure"]
    assert failure == 429
    desk.clock.set_back(BACK_S)
    try:
        desk.clock.advance(60)
        assert (await statuses(desk, payment_id, tenant))["failure"] == 401
    finally:
        desk.clock.set_back(-BACK_S)


async def test_repeated_request_has_its_stored_answer_after_the_clock_was_set_back(desk, tenant):
    headers = {**tenant.headers, "Idempotency-Key": "one"}
    first = await desk.ask("POST", CREATE, headers, ORDER)
    desk.clock.set_back(BACK_S)
    try:
        again = await desk.ask("POST", CREATE, headers, ORDER)
        assert (again.status, again.body) == (first.status, first.body)
        assert again.headers["Idempotent-Replayed"] == "true"
    finally:
        desk.clock.set_back(-BACK_S)


async def test_held_answer_ends_in_its_time_when_the_clock_is_set_back_meanwhile(desk, tenant):
    created = await desk.ask("POST", "/v1/webhook-endpoints", tenant.headers, {"url": ""})
    assert created.status == 201, created.text
    path = f"/v1/webhook-endpoints/{created.body['endpoint']['id']}/take"
    sleepers = desk.clock.sleeper_count
    held = asyncio.create_task(desk.ask("POST", path, tenant.headers, {"maxWaitMs": 2000}))
    await wait_until(lambda: desk.clock.sleeper_count > sleepers)

    async def passing() -> None:
        desk.clock.advance(1)

    desk.clock.set_back(BACK_S)
    began_us = desk.clock.steady_us()
    try:
        await wait_until(held.done, meanwhile=passing)
        assert (await held).status == 200
        assert desk.clock.steady_us() - began_us < 600_000_000
    finally:
        desk.clock.set_back(-BACK_S)


async def created_by(desk: ServiceHarness, tenant: PartnerTenant):
    answer = await desk.ask("POST", CREATE, tenant.headers, ORDER)
    assert answer.status == 201, answer.text
    return answer.body
