"""A creation that is sent twice makes one payment, even with events between the two."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import aiohttp
import grpc
import pytest
import pytest_asyncio
from florin.v1 import merchant_pb2, merchant_pb2_grpc

from tests.support.api import RestApi, grpc_metadata, to_api_call_error
from tests.support.desk import ORDER, PartnerTenant, ServiceHarness, ServiceResponse
from tests.support.service import run_service

CREATE = "/v1/payments"
OTHER = {**ORDER, "referenceId": "order-1002"}
CONFLICT = (409, "idempotency_conflict")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(desk) -> PartnerTenant:
    return await desk.tenant()


async def create(
    desk: ServiceHarness, tenant: PartnerTenant, key: str | None, body=ORDER, path=CREATE
) -> ServiceResponse:
    headers = tenant.headers if key is None else {**tenant.headers, "Idempotency-Key": key}
    return await desk.ask("POST", path, headers, body)


async def create_by_grpc(desk: ServiceHarness, tenant: PartnerTenant, key: str, **changes):
    """Return the payment id, and whether the answer is a repetition."""
    stub = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    metadata = grpc_metadata(tenant.headers)
    request = merchant_pb2.CreatePaymentRequest(
        **{"amount": ORDER["amount"], "reference_id": ORDER["referenceId"], **changes}
    )
    call = stub.CreatePayment(request, metadata=[*metadata, ("idempotency-key", key)])
    answer = await call
    return answer.payment_id, dict(await call.trailing_metadata()).get("idempotent-replayed")


async def test_the_same_request_gets_the_same_bytes(desk, tenant):
    first = await create(desk, tenant, "a")
    assert first.status == 201
    assert "Idempotent-Replayed" not in first.headers
    before = desk.rows()
    desk.clock.advance(60)
    for body in (ORDER, dict(reversed(ORDER.items())), {**ORDER, "unknown": 1, "checkout": None}):
        again = await create(desk, tenant, "a", body)
        assert (again.status, again.text) == (201, first.text)
        assert again.headers["Idempotent-Replayed"] == "true"
    text = json.dumps(ORDER, indent=4).replace("order-1001", "\\u006frder-1001")
    headers = {**tenant.headers, "Idempotency-Key": "a"}
    assert (await desk.ask("POST", CREATE, headers, data=text)).text == first.text
    assert desk.rows() == before


async def test_both_create_paths_share_idempotency_keys(desk, tenant):
    first = await create(desk, tenant, "a")
    again = await create(desk, tenant, "a", path="/v1/merchant/payment")
    assert (again.status, again.text) == (201, first.text)


async def test_another_body_under_the_same_key(desk, tenant):
    first = await create(desk, tenant, "a")
    before = desk.rows()
    amount = {**ORDER["amount"], "value": "1251"}
    for body in (OTHER, {**ORDER, "amount": amount}, {**ORDER, "expiresAt": desk.now + 900}):
        answer = await create(desk, tenant, "a", body)
        assert answer.refusal == CONFLICT
        assert answer.body["details"] == {"reason": "different_body"}
    assert desk.rows() == before
    assert (await create(desk, tenant, "a")).text == first.text


async def test_rest_and_grpc_share_keys(desk, tenant):
    first = await create(desk, tenant, "rest first")
    assert await create_by_grpc(desk, tenant, "rest first") == (first.body["paymentId"], "true")
    created, replayed = await create_by_grpc(desk, tenant, "grpc first")
    assert replayed is None
    again = await create(desk, tenant, "grpc first")
    assert again.body["paymentId"] == created
    assert again.headers["Idempotent-Replayed"] == "true"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await create_by_grpc(desk, tenant, "grpc first", reference_id="other")
    assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
    assert to_api_call_error(caught.value).code == "idempotency_conflict"


async def test_concurrent_create_requests_create_a_single_payment(desk, tenant):
    before = desk.rows()
    calls = [create(desk, tenant, "a") for _ in range(20)]
    calls += [create_by_grpc(desk, tenant, "a") for _ in range(20)]
    answers = await asyncio.gather(*calls)
    over_rest, over_grpc = answers[:20], answers[20:]
    assert len({answer.text for answer in over_rest}) == 1
    assert {created for created, _ in over_grpc} == {over_rest[0].body["paymentId"]}
    fresh = ["Idempotent-Replayed" not in answer.headers for answer in over_rest]
    fresh += [replayed is None for _, replayed in over_grpc]
    assert fresh.count(True) == 1
    after = desk.rows()
    assert after["payment"] == before["payment"] + 1
    assert after["idempotency"] == before["idempotency"] + 1


async def test_concurrent_different_requests_with_a_single_key_conflict(desk, tenant):
    orders = [{**ORDER, "referenceId": f"order-{n}"} for n in range(10)]
    answers = await asyncio.gather(*(create(desk, tenant, "a", order) for order in orders))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 9


async def test_without_a_key_every_request_is_new(desk, tenant):
    answers = [await create(desk, tenant, None) for _ in range(2)]
    # an empty key is no key
    answers += [await create(desk, tenant, "") for _ in range(2)]
    assert len({answer.body["paymentId"] for answer in answers}) == 4
    assert not [answer for answer in answers if "Idempotent-Replayed" in answer.headers]


async def test_the_bounds_of_a_key(desk, tenant):
    for key in ("k", "k" * 255, "".join(chr(n) for n in range(0x21, 0x7F)), "a b"):
        first, again = await create(desk, tenant, key), await create(desk, tenant, key)
        assert (first.status, again.text) == (201, first.text)
    before = desk.rows()
    assert (await create(desk, tenant, "k" * 256)).refusal == (400, "invalid_params")
    assert desk.rows() == before


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"amount": {"unit": "iso4217/USD", "value": 1}},
        {"amount": {"unit": "iso4217/USD", "value": "0"}},
        {"amount": {"unit": "iso4217/XXX", "value": "1"}},
        {**ORDER, "expiresAt": 1},
    ],
)
async def test_a_refused_request_leaves_its_key_unused(desk, tenant, body):
    before = desk.rows()
    for _ in range(2):
        assert (await create(desk, tenant, "a", body)).refusal == (400, "params_validation")
    assert desk.rows() == before
    answer = await create(desk, tenant, "a")
    assert answer.status == 201
    assert "Idempotent-Replayed" not in answer.headers


async def test_a_refused_caller_leaves_its_key_unused(desk, tenant):
    await tenant.change_merchant(status="inactive")
    assert (await create(desk, tenant, "a")).refusal == (403, "forbidden")
    await tenant.change_merchant(status="active")
    assert "Idempotent-Replayed" not in (await create(desk, tenant, "a")).headers


async def test_an_answer_outlives_the_time_that_the_request_named(desk, tenant):
    body = {**ORDER, "expiresAt": desk.now + 5}
    first = await create(desk, tenant, "a", body)
    desk.clock.advance(60)
    again = await create(desk, tenant, "a", body)
    assert (again.status, again.text) == (201, first.text)
    assert (await create(desk, tenant, "a", {**body, "expiresAt": 1})).refusal == CONFLICT
    # under a new key the same request is late
    assert (await create(desk, tenant, "b", body)).refusal == (400, "params_validation")
    assert (await create(desk, tenant, "b")).status == 201


async def test_another_key_of_the_partner_keeps_the_answers(desk, tenant):
    first = await create(desk, tenant, "a")
    _, tenant.secret = await desk.key(tenant.partner.id)
    assert (await create(desk, tenant, "a")).text == first.text


async def test_idempotency_keys_are_separate_per_partner_merchant_and_mode(desk, tenant):
    """Keys of another partner, another merchant or live data are separate."""
    sibling = replace(tenant, merchant=await desk.merchant(tenant))
    remaining = [tenant, sibling, await desk.tenant(), await desk.tenant(live=True)]
    answers = [await create(desk, item, "a") for item in remaining]
    assert len({answer.body["paymentId"] for answer in answers}) == 4
    assert not [answer for answer in answers if "Idempotent-Replayed" in answer.headers]


async def test_idempotent_response_is_retained_for_a_week(desk, tenant):
    first = await create(desk, tenant, "a")
    desk.clock.advance(7 * 86_400 - 1)
    assert (await create(desk, tenant, "a")).text == first.text
    desk.clock.advance(1)
    later = await create(desk, tenant, "a")
    assert later.body["paymentId"] != first.body["paymentId"]


async def test_the_key_of_a_read_is_ignored(desk, tenant):
    payment_id = (await create(desk, tenant, "a")).body["paymentId"]
    for key in ("a", "k" * 256):
        headers = {**tenant.headers, "Idempotency-Key": key}
        for path in ("", "/status"):
            answer = await desk.ask("GET", f"{CREATE}/{payment_id}{path}", headers)
            assert answer.status == 200
            assert "Idempotent-Replayed" not in answer.headers


async def test_idempotency_key_applies_to_the_cancel_of_a_single_payment(desk, tenant):
    payments = [(await create(desk, tenant, None)).body["paymentId"] for _ in range(2)]
    headers = {**tenant.headers, "Idempotency-Key": "cancel"}
    paths = [f"{CREATE}/{payment_id}/cancel" for payment_id in payments]
    first = await desk.ask("POST", paths[0], headers)
    assert (first.status, "Idempotent-Replayed" in first.headers) == (200, False)
    desk.clock.advance(1)
    again = await desk.ask("POST", paths[0], headers)
    assert (again.status, again.text) == (200, first.text)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert (await desk.ask("POST", paths[1], headers)).refusal == CONFLICT
    status = await desk.ask("GET", f"{CREATE}/{payments[1]}/status", tenant.headers)
    assert status.body["status"] == "requires_action"


async def test_a_refused_cancel_leaves_its_key_unused(desk, tenant):
    over, open_one = [(await create(desk, tenant, None)).body["paymentId"] for _ in range(2)]
    simulated = {"outcome": "failed"}
    path = f"/v1/sandbox/payments/{over}/simulate"
    assert (await desk.ask("POST", path, tenant.headers, simulated)).status == 200
    headers = {**tenant.headers, "Idempotency-Key": "cancel"}
    refused = await desk.ask("POST", f"{CREATE}/{over}/cancel", headers)
    assert refused.refusal == (400, "invalid_state")
    cancelled = await desk.ask("POST", f"{CREATE}/{open_one}/cancel", headers)
    assert (cancelled.status, "Idempotent-Replayed" in cancelled.headers) == (200, False)


async def test_wallets_get_current_answers_under_any_key(desk):
    offer = await desk.offer()
    side = f"/v1/gateway/payment/{offer.payment_id}"
    headers = {**desk.rest.wallet, "Idempotency-Key": "confirm"}
    results = [{"type": "walletRpc", "data": offer.outputs}]
    body = {"optionId": offer.option_id, "results": results}
    first = await desk.ask("POST", f"{side}/confirm", headers, body)
    assert first.status == 200
    await desk.wait_final(offer.payment_id)
    again = await desk.ask("POST", f"{side}/confirm", headers, body)
    assert again.body["status"] == "succeeded"
    assert "Idempotent-Replayed" not in again.headers


async def test_keys_survive_a_restart(tmp_path):
    texts = []
    for _ in range(2):
        async with run_service(tmp_path) as service, aiohttp.ClientSession() as session:
            env = service.home.read_demo_env()
            api = RestApi(session, env["FLORIN_BASE_URL"], env)
            texts.append((await api.create(ORDER, key="a"))["paymentId"])
    assert texts[0] == texts[1]


async def test_equal_requests_have_equal_orders(desk, tenant):
    order = {
        **ORDER,
        "description": "Breakfast",
        "lines": [{"name": "Tea", "amount": "900"}, {"name": "Cake", "amount": "350"}],
        "metadata": {"a": "1", "b": "2"},
    }
    first = await create(desk, tenant, "order", order)
    assert first.status == 201
    # members have no order, lines do
    again = await create(desk, tenant, "order", {**order, "metadata": {"b": "2", "a": "1"}})
    assert (again.status, again.text) == (201, first.text)
    (payment_id, replayed) = await create_by_grpc(
        desk,
        tenant,
        "order",
        description="Breakfast",
        lines=order["lines"],
        metadata={"b": "2", "a": "1"},
    )
    assert (payment_id, replayed) == (first.body["paymentId"], "true")
    for change in (
        {"description": "Lunch"},
        {"description": None},
        {"lines": order["lines"][::-1]},
        {"lines": []},
        {"metadata": {"a": "1"}},
        {"metadata": {"a": "1", "b": "3"}},
    ):
        assert (await create(desk, tenant, "order", {**order, **change})).refusal == CONFLICT
