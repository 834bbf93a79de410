"""Until processes of an older release end, calls that they would misread are refused."""

from __future__ import annotations

import pytest
from florin_server.db import installation
from florin_server.db.engine.schema import HEAD

from tests.support.api import ApiCallError
from tests.support.service_harness import ORDER
from tests.support.until import advance, wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENDPOINTS = "/v1/webhook-endpoints"
HOOK = "https://shop.example/hooks"


async def test_second_refunds_and_endpoints_of_all_types_wait_for_the_end_of_an_upgrade(desk):
    rest, store = desk.rest, desk.service.app.store
    payment_id = (await rest.create(ORDER))["paymentId"]
    await rest.simulate(payment_id, "succeeded")
    await store.write(installation.put_value("older_releases", f"{HEAD} 0"))
    part = {"unit": ORDER["amount"]["unit"], "value": "1"}
    await rest.refund(payment_id, amount=part)
    with pytest.raises(ApiCallError) as second:
        await rest.refund(payment_id, amount=part)
    assert (second.value.http, second.value.code) == (503, "internal_error")
    key = {"Api-Key": rest.merchant["Api-Key"]}
    with pytest.raises(ApiCallError) as every:
        await rest.call("POST", ENDPOINTS, key, {"url": HOOK, "events": ["*"]})
    assert every.value.http == 503
    created = await rest.call(
        "POST", ENDPOINTS, key, {"url": HOOK, "events": ["payment.succeeded"]}
    )
    path = f"{ENDPOINTS}/{created['endpoint']['id']}"
    with pytest.raises(ApiCallError) as changed:
        await rest.call("PATCH", path, key, {"events": {"types": ["*"]}})
    assert changed.value.http == 503

    async def finished() -> bool:
        return await store.read(installation.find_value("older_releases")) is None

    async def passing() -> None:
        await advance(desk.clock, 10)

    await wait_until(finished, meanwhile=passing)
    await rest.refund(payment_id, amount=part)
    await rest.call("PATCH", path, key, {"events": {"types": ["*"]}})
