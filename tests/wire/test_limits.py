"""Rate limits of callers, equal over REST and gRPC; the stopped clock refills nothing."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
import pytest_asyncio
from florin.v1 import gateway_pb2_grpc, merchant_pb2_grpc, payment_pb2
from florin_server.settings import LimitSettings
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from tests.support.api import grpc_metadata, to_api_call_error
from tests.support.open_responses import wait_no_open_responses
from tests.support.service_harness import (
    ORDER,
    PartnerTenant,
    ServiceHarness,
    ServiceResponse,
    open_service,
)

LIMITED = (429, "rate_limited")
LONG = "maxPollMs=600000"
# small, so that few calls reach them: ten a second, one a second
SMALL = LimitSettings(
    key_per_minute=600,
    key_burst=20,
    app_per_minute=60,
    app_burst=12,
    payment_per_minute=20,
    payment_burst=3,
    failure_per_minute=60,
    failure_burst=5,
    page_per_minute=60,
    page_burst=4,
    held_per_credential=4,
    held_per_payment=2,
    held_per_payment_caller=4,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("shop"), limits=SMALL) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(shop) -> PartnerTenant:
    # limits that the previous test used up are refilled
    shop.clock.advance(60)
    return await shop.tenant()


async def ask(
    desk: ServiceHarness, tenant: PartnerTenant, path: str = "/pay_0", method: str = "GET"
) -> ServiceResponse:
    return await desk.ask(method, f"/v1/payments{path}", tenant.headers)


async def created(desk: ServiceHarness, tenant: PartnerTenant) -> str:
    answer = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    assert answer.status == 201, answer.text
    return str(answer.body["paymentId"])


async def by_grpc(desk: ServiceHarness, headers: dict[str, str], payment_id: str = "pay_0") -> Any:
    """Return code, status with its details if it is refused, and metadata of a status call."""
    stub: Any = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    if "Merchant-Id" not in headers:
        stub = gateway_pb2_grpc.GatewayServiceStub(desk.channel)
    call = stub.GetPaymentStatus(
        payment_pb2.GetPaymentStatusRequest(payment_id=payment_id),
        metadata=grpc_metadata(headers),
    )
    status = None
    try:
        await call
    except grpc.aio.AioRpcError as error:
        status = rpc_status.from_call(error)
    return await call.code(), status, dict(await call.trailing_metadata())


def wallet(desk: ServiceHarness, client: str) -> dict[str, str]:
    return {"App-Id": desk.env["FLORIN_APP_ID"], "Client-Id": client}


async def info(
    desk: ServiceHarness, headers: dict[str, str], payment_id: str = "pay_0"
) -> ServiceResponse:
    return await desk.ask("GET", f"/v1/gateway/payment/{payment_id}", headers)


# credentials
async def test_every_response_reports_the_remaining_rate_limit(shop, tenant):
    payment_id = await created(shop, tenant)
    for left, path in ((18, f"/{payment_id}"), (17, "/pay_0"), (16, f"/{payment_id}/status")):
        answer = await ask(shop, tenant, path)
        assert answer.headers["RateLimit-Policy"] == '"key";q=600;w=60'
        assert answer.headers["RateLimit"] == f'"key";r={left};t=1'
    refused_ = await shop.ask("POST", "/v1/payments", tenant.headers, {})
    assert refused_.refusal == (400, "params_validation")
    assert refused_.headers["RateLimit"] == '"key";r=15;t=1'
    url = f"{shop.rest.base}/v1/payments/{payment_id}/events"
    async with shop.session.get(url, headers=tenant.headers) as stream:
        assert stream.headers["RateLimit"] == '"key";r=14;t=1'
    code, _, metadata = await by_grpc(shop, tenant.headers, payment_id)
    assert code is grpc.StatusCode.OK
    assert metadata["ratelimit-policy"] == '"key";q=600;w=60'
    assert metadata["ratelimit"] == '"key";r=13;t=1'
    shop.clock.advance(0.5)
    assert (await ask(shop, tenant)).headers["RateLimit"] == '"key";r=17;t=1'
    # an unknown caller gets no limit headers
    assert "RateLimit" not in (await info(shop, {})).headers


async def test_call_above_the_limit_is_refused_in_both_protocols(shop, tenant):
    for _ in range(20):
        assert (await ask(shop, tenant)).refusal == (404, "payment_not_found")
    answer = await ask(shop, tenant)
    assert answer.refusal == LIMITED
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["RateLimit"] == '"key";r=0;t=1'
    assert answer.headers["Pay-Version"] == "2026-02-18"
    code, status, metadata = await by_grpc(shop, tenant.headers)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    details = {detail.type_url.rpartition(".")[2]: detail for detail in status.details}
    retry, about = error_details_pb2.RetryInfo(), error_details_pb2.ErrorInfo()
    assert details["RetryInfo"].Unpack(retry)
    assert details["ErrorInfo"].Unpack(about)
    assert retry.retry_delay.seconds == 1
    assert about.metadata["http_status"] == "429"
    assert metadata["ratelimit"] == '"key";r=0;t=1'
    shop.clock.advance(0.1)
    assert (await ask(shop, tenant)).status == 404
    assert (await ask(shop, tenant)).refusal == LIMITED


async def test_concurrent_callers_get_exactly_the_limit(shop, tenant):
    async def caller(number: int) -> int:
        admitted = 0
        for _ in range(25):
            if number % 2:
                admitted += (await ask(shop, tenant)).status == 404
            else:
                code, _, _ = await by_grpc(shop, tenant.headers)
                admitted += code is grpc.StatusCode.NOT_FOUND
        return admitted

    assert sum(await asyncio.gather(*(caller(n) for n in range(8)))) == 20
    shop.clock.advance(1)
    assert sum(await asyncio.gather(*(caller(n) for n in range(8)))) == 10


async def test_the_place_of_the_limit_in_the_order_of_checks(shop, tenant):
    for _ in range(20):
        await ask(shop, tenant)
    path = "/v1/payments"
    version = {**tenant.headers, "Pay-Version": "bad"}
    assert (await shop.ask("GET", f"{path}/pay_0", version)).refusal == (400, "invalid_api_version")
    merchant = {**tenant.headers, "Merchant-Id": "unknown"}
    assert (await shop.ask("POST", path, merchant, {})).refusal == (404, "merchant_not_found")
    long_key = {**tenant.headers, "Idempotency-Key": "k" * 256}
    assert (await shop.ask("POST", path, long_key, {})).refusal == LIMITED
    assert (await shop.ask("POST", path, tenant.headers, data=b"{")).refusal == LIMITED


async def test_each_credential_has_its_own_budget(shop, tenant):
    for _ in range(20):
        await ask(shop, tenant)
    assert (await ask(shop, tenant)).refusal == LIMITED
    _, tenant.secret = await shop.key(tenant.partner.id)
    assert (await ask(shop, tenant)).status == 404
    # a wallet's limit is smaller, and each of its clients has one; the policy has one name
    first, second = wallet(shop, "first"), wallet(shop, "second")
    for left in reversed(range(12)):
        answer = await info(shop, first)
        assert answer.headers["RateLimit-Policy"] == '"key";q=60;w=60'
        assert answer.headers["RateLimit"] == f'"key";r={left};t=1'
    assert (await info(shop, first)).refusal == LIMITED
    assert (await info(shop, second)).headers["RateLimit"] == '"key";r=11;t=1'


async def test_client_ids_of_any_length_have_separate_limits(shop, tenant):
    long = ["c" * 2000 + end for end in "ab"]
    assert (await info(shop, wallet(shop, long[0]))).headers["RateLimit"] == '"key";r=11;t=1'
    assert (await info(shop, wallet(shop, long[0]))).headers["RateLimit"] == '"key";r=10;t=1'
    assert (await info(shop, wallet(shop, long[1]))).headers["RateLimit"] == '"key";r=11;t=1'


async def test_disabled_limits_count_nothing_and_send_no_headers(desk):
    for _ in range(30):
        answer = await info(desk, wallet(desk, "same"))
        assert answer.status == 404
        assert "RateLimit" not in answer.headers
        assert "RateLimit-Policy" not in answer.headers


async def test_default_limits_are_unchanged():
    taken = LimitSettings()
    assert (taken.key_per_minute, taken.key_burst) == (12_000, 600)
    assert (taken.app_per_minute, taken.app_burst) == (1_200, 120)
    assert (taken.address_per_minute, taken.address_burst) == (3_000, 200)
    assert (taken.app_total_per_minute, taken.app_total_burst) == (60_000, 6_000)
    assert (taken.options_per_minute, taken.options_burst) == (60, 60)
    assert (taken.payment_total_per_minute, taken.payment_total_burst) == (200, 200)
    assert (taken.guard_per_minute, taken.guard_burst) == (60, 60)
    assert (taken.nonce_payer_per_hour, taken.nonce_address_per_hour) == (6, 6)
    assert (taken.nonce_key_per_hour, taken.nonce_partner_per_hour) == (120, 240)
    assert (taken.held_per_payment_caller, taken.held_per_payment_total) == (20, 500)
    assert (taken.held_per_address, taken.held_per_app) == (200, 10_000)
    assert (taken.payment_per_minute, taken.payment_burst) == (20, 20)
    assert (taken.failure_per_minute, taken.failure_burst) == (60, 60)
    assert (taken.page_per_minute, taken.page_burst) == (600, 100)
    assert (taken.held_per_credential, taken.held_per_payment) == (1_000, 50)


# failed authentication
GUESSES = [
    ({"Api-Key": "guess"}, "invalid_api_key"),
    ({"App-Id": "app_guess", "Client-Id": "c"}, "invalid_app_id"),
    ({}, "missing_auth_headers"),
    ({"Client-Id": "c"}, "missing_app_id"),
]


async def test_an_address_may_fail_so_often(shop, tenant):
    # refused for another reason: no failure
    both = {"Api-Key": "guess", "App-Id": "guess"}
    for _ in range(10):
        assert (await info(shop, both)).refusal == (400, "conflicting_auth_headers")
    for headers, code in GUESSES:
        assert (await info(shop, headers)).refusal == (401, code)
    code, _, _ = await by_grpc(shop, {"Api-Key": "guess"})
    assert code is grpc.StatusCode.UNAUTHENTICATED
    # that was one failure too many from the same address
    for headers, _ in GUESSES:
        answer = await info(shop, headers)
        assert answer.refusal == LIMITED
        assert answer.headers["Retry-After"] == "1"
        assert "RateLimit" not in answer.headers
    code, _, _ = await by_grpc(shop, {"Api-Key": "guess"})
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    # callers with valid credentials are not affected
    assert (await ask(shop, tenant)).refusal == (404, "payment_not_found")
    assert (await info(shop, wallet(shop, "proven"))).refusal == (404, "payment_not_found")
    shop.clock.advance(1)
    assert (await info(shop, {})).refusal == (401, "missing_auth_headers")
    assert (await info(shop, {})).refusal == LIMITED


# payments
def results(*outputs: str) -> list[dict[str, Any]]:
    return [{"type": "walletRpc", "data": list(outputs)}]


async def test_new_confirms_of_a_payment_are_limited_and_polls_are_not(shop, tenant):
    offer = await shop.offer(tenant=tenant)
    path = f"/v1/gateway/payment/{offer.payment_id}/confirm"

    async def confirm(outputs: list[str]) -> ServiceResponse:
        body = {"optionId": offer.option_id, "results": results(*outputs)}
        return await shop.ask("POST", path, {"Api-Key": tenant.secret}, body)

    for number in range(2):
        wrong = ["0x" + f"{number + 1:02x}" * 65]
        assert (await confirm(wrong)).refusal == (400, "invalid_params")
    # confirms with its account's signature are counted apart
    assert (await confirm(offer.outputs)).status == 200
    assert (await confirm(["0x" + "08" * 65])).refusal == (409, "idempotency_conflict")
    assert (await confirm(["0x" + "09" * 65])).refusal == LIMITED
    for _ in range(6):
        assert (await confirm(offer.outputs)).status == 200
    refused_ = await confirm(["0x" + "0a" * 65])
    # one each three seconds
    assert (refused_.refusal, refused_.headers["Retry-After"]) == (LIMITED, "3")
    shop.clock.advance(3)
    assert (await confirm(["0x" + "0b" * 65])).refusal == (409, "idempotency_conflict")
    # another payment has a budget of its own
    other = await shop.offer(tenant=tenant)
    assert (await shop.confirm(other))["status"] == "processing"


async def test_cancels_of_a_payment_are_limited_and_repetitions_are_not(shop, tenant):
    payment_id = await created(shop, tenant)
    for _ in range(6):
        assert (await ask(shop, tenant, f"/{payment_id}/cancel", "POST")).status == 200
    offer = await shop.offer(tenant=tenant)
    await shop.confirm(offer)
    await shop.wait_final(offer.payment_id)
    for _ in range(3):
        answer = await ask(shop, tenant, f"/{offer.payment_id}/cancel", "POST")
        assert answer.refusal == (400, "invalid_state")
    assert (await ask(shop, tenant, f"/{offer.payment_id}/cancel", "POST")).refusal == LIMITED


# pages
async def test_an_address_gets_so_many_pages(shop, tenant):
    payment_id = await created(shop, tenant)
    for page in (payment_id, "pay_0", payment_id, "nonsense"):
        assert (await shop.ask("GET", f"/{page}")).status in {200, 404}
    for method in ("GET", "HEAD"):
        answer = await shop.ask(method, f"/{payment_id}")
        assert answer.status == 429
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.headers["Retry-After"] == "1"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert (await shop.ask("GET", "/v1")).refusal == (404, "invalid_params")
    shop.clock.advance(1)
    assert (await shop.ask("GET", f"/{payment_id}")).status == 200


# waiting answers
@asynccontextmanager
async def rest_stream(desk: ServiceHarness, tenant: PartnerTenant, payment_id: str):
    url = f"{desk.rest.base}/v1/payments/{payment_id}/events"
    async with desk.session.get(url, headers=tenant.headers) as stream:
        assert stream.status == 200
        await stream.content.readuntil(b"data:")
        yield


@asynccontextmanager
async def watched(desk: ServiceHarness, headers: dict[str, str], payment_id: str):
    """Open a wallet's stream."""
    url = f"{desk.rest.base}/v1/gateway/payment/{payment_id}/events"
    async with desk.session.get(url, headers=headers) as stream:
        assert stream.status == 200, await stream.text()
        await stream.content.readuntil(b"data:")
        yield


@asynccontextmanager
async def grpc_stream(desk: ServiceHarness, tenant: PartnerTenant, payment_id: str):
    stub = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    metadata = grpc_metadata(tenant.headers)
    call = stub.WatchPayment(
        payment_pb2.WatchPaymentRequest(payment_id=payment_id), metadata=metadata
    )
    await call.read()
    yield
    call.cancel()


@pytest.mark.parametrize("stream", [rest_stream, grpc_stream])
async def test_a_payment_is_watched_so_often_at_a_time(shop, tenant, stream):
    payment_id = await created(shop, tenant)
    for _ in range(2):
        async with rest_stream(shop, tenant, payment_id), stream(shop, tenant, payment_id):
            for path in (f"/{payment_id}/events", f"/{payment_id}/status?{LONG}"):
                answer = await ask(shop, tenant, path)
                assert answer.refusal == LIMITED
                assert answer.headers["Retry-After"] == "1"
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async with grpc_stream(shop, tenant, payment_id):
                    pass
            assert to_api_call_error(caught.value).code == "rate_limited"
            # a status call is no stream, and other payments can be watched
            assert (await ask(shop, tenant, f"/{payment_id}/status")).status == 200
            async with rest_stream(shop, tenant, await created(shop, tenant)):
                pass
        await wait_no_open_responses(shop)


async def test_a_credential_holds_so_many_answers_at_a_time(shop, tenant):
    payments = [await created(shop, tenant) for _ in range(3)]
    async with (
        rest_stream(shop, tenant, payments[0]),
        rest_stream(shop, tenant, payments[0]),
        grpc_stream(shop, tenant, payments[1]),
        grpc_stream(shop, tenant, payments[1]),
    ):
        assert (await ask(shop, tenant, f"/{payments[2]}/events")).refusal == LIMITED
        other = await shop.tenant()
        async with rest_stream(shop, other, await created(shop, other)):
            pass
    await wait_no_open_responses(shop)


async def test_ended_or_refused_streams_release_their_slots(shop, tenant):
    payment_id = await created(shop, tenant)
    poll = asyncio.create_task(ask(shop, tenant, f"/{payment_id}/status?{LONG}"))
    async with rest_stream(shop, tenant, payment_id):
        assert (await ask(shop, tenant, f"/{payment_id}/cancel", "POST")).status == 200
        assert (await asyncio.wait_for(poll, 20)).body["status"] == "cancelled"
    for _ in range(5):
        assert (await ask(shop, tenant, "/pay_0/events")).refusal == (404, "payment_not_found")
        assert (await ask(shop, tenant, f"/nonsense/status?{LONG}")).status == 404
    await wait_no_open_responses(shop)


async def test_a_confirm_that_cannot_be_held_is_answered_at_once(shop, tenant):
    offer = await shop.offer(tenant=tenant)
    path = f"/v1/gateway/payment/{offer.payment_id}/confirm?{LONG}"
    body = {"optionId": offer.option_id, "results": results(*offer.outputs)}
    buyer = wallet(shop, "buyer")
    async with watched(shop, buyer, offer.payment_id), watched(shop, buyer, offer.payment_id):
        answer = await shop.ask("POST", path, buyer, body)
        assert (answer.status, answer.body["status"]) == (200, "processing")
    await wait_no_open_responses(shop)
    await shop.wait_final(offer.payment_id)
