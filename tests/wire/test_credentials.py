"""Cases of callers beyond the tables of test_matrix: order, scopes, modes, time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import grpc
import pytest
import pytest_asyncio
from florin.v1 import (
    gateway_pb2,
    gateway_pb2_grpc,
    merchant_pb2,
    merchant_pb2_grpc,
    payment_pb2,
)

from tests.support.api import grpc_metadata, to_api_call_error
from tests.support.service_harness import DEPLOYED, ORDER, SPEC, PartnerTenant

PASS = (200, "")
UNKNOWN = (404, "payment_not_found")
WRONG_KEY = (401, "invalid_api_key")
FORBIDDEN = (403, "forbidden")
NO_HEADERS = (401, "missing_auth_headers")
NO_MERCHANT = (404, "merchant_not_found")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Cast:
    """The callers of these tests, and the one payment that they request."""

    tenant: PartnerTenant
    payment_id: str
    names: dict[str, str]

    def headers(self, sent: dict[str, str]) -> dict[str, str]:
        return {name: self.names.get(value, value) for name, value in sent.items()}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cast(desk) -> Cast:
    tenant, live = await desk.tenant(), await desk.tenant(live=True)
    created = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    names = {
        "<live app>": (await desk.wallet_app(live=True))["App-Id"],
        "<wallet key>": (await desk.key(None))[1],
        "<live key>": live.secret,
        "<live merchant>": live.merchant.id,
    }
    return Cast(tenant, created.body["paymentId"], names)


async def outcome_of(call: Any, request: Any, headers: dict[str, str]) -> tuple[int, str]:
    metadata = grpc_metadata(headers)
    try:
        await call(request, metadata=metadata, timeout=10)
    except grpc.aio.AioRpcError as error:
        api_call_error = to_api_call_error(error)
        return api_call_error.http, api_call_error.code
    return PASS


async def test_bearer_token_over_rest_is_answered_with_the_headers_to_send(desk, cast):
    bearer = {"Authorization": f"Bearer {cast.tenant.secret}"}
    answer = await desk.ask("POST", "/v1/payments", bearer, ORDER)
    assert answer.refusal == NO_HEADERS
    assert "send Api-Key and Merchant-Id instead of Authorization" in answer.body["message"]
    assert cast.tenant.secret not in answer.text
    both = await desk.ask("POST", "/v1/payments", {**cast.tenant.headers, **bearer}, ORDER)
    assert both.status == 201


async def test_amount_that_is_no_number_names_field_and_form(desk, cast):
    order = {**ORDER, "amount": {"unit": "iso4217/USD", "value": "abc"}}
    answer = await desk.ask("POST", "/v1/payments", cast.tenant.headers, order)
    assert answer.refusal == (400, "params_validation")
    (issue,) = answer.body["issues"]
    assert issue["field"] == "amount.value"
    assert issue["message"].startswith("must be a whole number of minor units")


async def test_live_and_test_data_are_apart(desk, cast):
    live = cast.headers({"Api-Key": "<live key>", "Merchant-Id": "<live merchant>"})
    created = await desk.ask("POST", "/v1/payments", live, ORDER)
    assert (created.status, created.body["live"]) == (201, True)
    payment_id = created.body["paymentId"]
    live_app = cast.headers({"App-Id": "<live app>", "Client-Id": "c"})
    path = f"/v1/gateway/payment/{payment_id}"
    assert (await desk.ask("GET", path, live_app)).body["live"] is True
    offered = await desk.ask("POST", f"{path}/options", live_app, {"accounts": []})
    assert offered.body["options"] == []
    for method, call in (("GET", ""), ("GET", "/status"), ("POST", "/cancel"), ("GET", "/events")):
        assert (await desk.ask(method, path + call, desk.rest.wallet)).refusal == UNKNOWN


@pytest.mark.parametrize("live", [False, True], ids=["test key", "live key"])
async def test_a_key_reaches_no_merchant_of_the_other_mode(desk, live):
    """This holds for its own partner's merchants too."""
    tenant = await desk.tenant(live=live)
    other = (await desk.merchant(tenant, live=not live)).id
    _, secret = await desk.key(tenant.partner.id, live=not live)
    created = await desk.ask(
        "POST", "/v1/payments", {"Api-Key": secret, "Merchant-Id": other}, ORDER
    )
    headers = {**tenant.headers, "Merchant-Id": other}
    path = f"/v1/payments/{created.body['paymentId']}"
    for method, call, body in (("POST", "/v1/payments", ORDER), ("GET", path, None)):
        answer = await desk.ask(method, call, headers, body)
        assert answer.refusal == (404, "merchant_not_found")


@pytest.mark.parametrize(
    ("scope", "may"),
    [
        ("read", {"detail", "status", "info", "options", "fetch"}),
        ("create", {"create", "confirm", "cancel", "merchant cancel"}),
        ("refund", set()),
        ("settle", set()),
        ("manage", set()),
    ],
)
async def test_api_key_is_limited_to_its_scopes(desk, cast, scope, may):
    _, secret = await desk.key(cast.tenant.partner.id, scopes=(scope,))
    headers = {**cast.tenant.headers, "Api-Key": secret}
    # the resources do not exist: an admitted caller gets that refusal, or one for its body
    text, side = "/v1/payments/pay_0", "/v1/gateway/payment/pay_0"
    calls = {
        "create": ("POST", "/v1/payments"),
        "detail": ("GET", text),
        "status": ("GET", f"{text}/status"),
        "merchant cancel": ("POST", f"{text}/cancel"),
        "info": ("GET", side),
        "options": ("POST", f"{side}/options"),
        "fetch": ("POST", f"{side}/fetch"),
        "confirm": ("POST", f"{side}/confirm"),
        "cancel": ("POST", f"{side}/cancel"),
    }
    for name, (method, path) in calls.items():
        answer = await desk.ask(method, path, headers, {} if method == "POST" else None)
        assert (answer.status != 403) is (name in may), (name, answer.text)


async def test_a_revoked_key_stops_within_five_seconds(desk, cast):
    key_id, secret = await desk.key(cast.tenant.partner.id)
    headers = {**cast.tenant.headers, "Api-Key": secret}
    path = f"/v1/payments/{cast.payment_id}"
    assert (await desk.ask("GET", path, headers)).status == 200
    await desk.revoke(key_id)
    desk.clock.advance(5)
    assert (await desk.ask("GET", path, headers)).refusal == WRONG_KEY


async def test_a_suspended_partner_stops_within_five_seconds(desk):
    tenant = await desk.tenant()
    assert (await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)).status == 201
    await tenant.change_partner(status="suspended")
    desk.clock.advance(5)
    assert (await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)).refusal == FORBIDDEN


@pytest.mark.parametrize("path", ["/v1/payments", "/v1/merchant/payment"])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"status": "suspended"}, FORBIDDEN),
        ({"status": "inactive"}, FORBIDDEN),
        ({"deleted_at_us": 1}, NO_MERCHANT),
    ],
)
async def test_merchant_without_new_payments_keeps_access_to_existing_payments(
    desk, path, change, expected
):
    tenant = await desk.tenant()
    created = await desk.ask("POST", path, tenant.headers, ORDER)
    text = f"/v1/payments/{created.body['paymentId']}"
    await tenant.change_merchant(**change)
    before = desk.rows()
    assert (await desk.ask("POST", path, tenant.headers, ORDER)).refusal == expected
    # a caller with an invalid body gets the refusal for its account first
    assert (await desk.ask("POST", path, tenant.headers, {})).refusal == expected
    assert desk.rows() == before
    assert (await desk.ask("GET", text, tenant.headers)).status == 200
    assert (await desk.ask("GET", f"{text}/status", tenant.headers)).status == 200
    assert (await desk.ask("POST", f"{text}/cancel", tenant.headers)).status == 200


# earlier checks hide later ones
async def test_validation_errors_are_hidden_from_unauthenticated_callers(desk, cast):
    side = f"/v1/gateway/payment/{cast.payment_id}"
    for path in (f"{side}/options", f"{side}/confirm?maxPollMs=x", f"{side}/options?%zz"):
        answer = await desk.ask("POST", path, {}, data=b"{not json")
        assert answer.refusal == NO_HEADERS, path
        assert (await desk.ask("POST", path, {"Api-Key": "x"}, data=b"[]")).refusal == WRONG_KEY
    for path in (f"{side}/status?maxPollMs=-1", f"{side}/events"):
        headers = {"Last-Event-ID": "x"}
        assert (await desk.ask("GET", path, headers)).refusal == NO_HEADERS
    assert (await desk.ask("POST", "/v1/payments", {}, {})).refusal == NO_HEADERS


async def test_the_order_of_checks(desk, cast):
    key, app = cast.tenant.headers, desk.rest.wallet
    create, side = "/v1/payments", f"/v1/gateway/payment/{cast.payment_id}"
    bad = {"Pay-Version": "bad"}
    long_key = {"Idempotency-Key": "k" * 256}
    # route, then credential
    assert (await desk.ask("GET", "/v1/nowhere", {})).refusal == (404, "invalid_params")
    # size and media type, then credential
    answer = await desk.ask("POST", f"{side}/options", {"Content-Type": "text/plain"}, {})
    assert answer.refusal == (415, "invalid_params")
    answer = await desk.ask("POST", f"{side}/options", {}, data=b" " * 65_537)
    assert answer.refusal == (413, "invalid_params")
    # credential, then version
    assert (await desk.ask("GET", side, bad)).refusal == NO_HEADERS
    answer = await desk.ask("POST", create, {**key, **bad, "Merchant-Id": "unknown"}, ORDER)
    assert answer.refusal == NO_MERCHANT
    # version, then idempotency key
    answer = await desk.ask("POST", create, {**key, **bad, **long_key}, ORDER)
    assert answer.refusal == (400, "invalid_api_version")
    # idempotency key, then body
    answer = await desk.ask("POST", create, {**key, **long_key}, {})
    assert answer.refusal == (400, "invalid_params")
    # body, then resource
    answer = await desk.ask("POST", "/v1/gateway/payment/pay_0/options", app, {})
    assert answer.refusal == (400, "params_validation")
    answer = await desk.ask("POST", "/v1/gateway/payment/pay_0/options", app, {"accounts": []})
    assert answer.refusal == UNKNOWN
    # resource, then state
    await desk.rest.merchant_cancel((await desk.rest.create(ORDER))["paymentId"])
    answer = await desk.ask("POST", "/v1/payments/pay_0/cancel", key)
    assert answer.refusal == UNKNOWN


@pytest.mark.parametrize(
    "name",
    [
        "Api-Key",
        "App-Id",
        "Client-Id",
        "Merchant-Id",
        "Pay-Version",
        "WCP-Version",
        "Sdk-Name",
        "Sdk-Version",
        "Sdk-Platform",
        "Idempotency-Key",
    ],
)
@pytest.mark.parametrize("value", [b"caf\xc3\xa9", b"a\tb"], ids=["not ASCII", "not printable"])
async def test_a_header_that_is_not_printable_ascii_comes_before_its_credential(
    desk, cast, name, value
):
    path = f"/v1/gateway/payment/{cast.payment_id}"
    head = b"GET %s HTTP/1.1\r\nHost: x\r\n%s: %s\r\n\r\n"
    status, headers, body = await desk.send_raw(head % (path.encode(), name.encode(), value))
    assert (status, body["code"]) == (400, "header_not_ascii")
    assert headers["request-id"] == body["requestId"]
    # on a path that does not exist the path is the fault
    status, _, body = await desk.send_raw(head % (b"/v1/nowhere", name.encode(), value))
    assert (status, body["code"]) == (404, "invalid_params")


async def test_other_headers_may_hold_anything(desk, cast):
    credentials = f"App-Id: {desk.env['FLORIN_APP_ID']}\r\nClient-Id: c\r\n".encode()
    path = f"/v1/gateway/payment/{cast.payment_id}".encode()
    head = (
        b"GET %s HTTP/1.1\r\nHost: x\r\n%sUser-Agent: caf\xc3\xa9\r\nRequest-Id: \xc3\xa9\r\n\r\n"
    )
    status, headers, _ = await desk.send_raw(head % (path, credentials))
    assert status == 200
    assert headers["request-id"].isascii()


@pytest.mark.parametrize("size", [200, 255, 256, 4000])
async def test_client_ids_of_any_length_are_distinguished(desk, cast, size):
    app = await desk.wallet_app()
    path = f"/v1/gateway/payment/{cast.payment_id}/options"

    async def status(client: str, body: dict[str, Any]) -> int:
        sent = {**app, "Client-Id": client, "Idempotency-Key": "a"}
        return (await desk.ask("POST", path, sent, body)).status

    item, other = "c" * size + "1", "c" * size + "2"
    assert await status(item, {"accounts": []}) == 200
    assert await status(other, {"accounts": ["x"]}) == 200
    assert await status(item, {"accounts": ["x"]}) == 409


async def test_the_version_is_the_header_else_the_pin(desk, cast):
    preview = await desk.tenant(pin="2026-02-19.preview")
    app = await desk.wallet_app(pin="2026-02-19.preview")
    created = await desk.ask("POST", "/v1/payments", preview.headers, ORDER)
    own = f"/v1/payments/{created.body['paymentId']}"
    side = f"/v1/gateway/payment/{cast.payment_id}"
    for path, headers, version in (
        (f"/v1/payments/{cast.payment_id}", cast.tenant.headers, "2026-02-18"),
        (own, preview.headers, "2026-02-19.preview"),
        (side, desk.rest.wallet, "2026-02-18"),
        (side, app, "2026-02-19.preview"),
        (side, {"Api-Key": cast.names["<wallet key>"]}, "2026-02-18"),
        (side, {**desk.rest.wallet, "WCP-Version": "2026-02-19.preview"}, "2026-02-19.preview"),
    ):
        answer = await desk.ask("GET", path, headers)
        assert answer.headers["Pay-Version"] == version
        assert answer.headers["WCP-Version"] == version


async def test_api_version_downgrade_reports_the_pinned_version(desk, cast):
    app = await desk.wallet_app(pin="2026-02-19.preview")
    answer = await desk.ask(
        "GET", f"/v1/gateway/payment/{cast.payment_id}", {**app, "Pay-Version": "2026-02-18"}
    )
    assert answer.refusal == (400, "api_version_downgrade")
    assert answer.body["details"] == {"pinned": "2026-02-19.preview"}


@pytest.mark.parametrize("protocol", ["REST", "gRPC"])
async def test_a_malformed_id_in_both_profiles(desk, protocol):
    """The one answer besides credentials and JSON texts that the profile decides."""
    stub = gateway_pb2_grpc.GatewayServiceStub(desk.channel)
    for profile, expected in (({}, PASS), (SPEC, PASS), (DEPLOYED, UNKNOWN)):
        headers = {**desk.rest.wallet, **profile}
        if protocol == "REST":
            answer = await desk.ask(
                "POST", "/v1/gateway/payment/nonsense/options", headers, {"accounts": []}
            )
            outcome = PASS if answer.status == 200 else answer.refusal
            if outcome == PASS:
                assert answer.body == {
                    "paymentId": "nonsense",
                    "options": [],
                    "collectData": None,
                }
        else:
            request = gateway_pb2.GetPaymentOptionsRequest(payment_id="nonsense")
            outcome = await outcome_of(stub.GetPaymentOptions, request, headers)
        assert outcome == expected


async def test_grpc_response_metadata_carries_the_request_id_and_version(desk, cast):
    stub = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    metadata = grpc_metadata(cast.tenant.headers)
    call = stub.GetPayment(
        payment_pb2.GetPaymentRequest(payment_id=cast.payment_id),
        metadata=[*metadata, ("request-id", "mine")],
    )
    assert isinstance(await call, merchant_pb2.PaymentDetail)
    result = {**dict(await call.initial_metadata()), **dict(await call.trailing_metadata())}
    assert result["request-id"] == "mine"
    assert result["pay-version"] == "2026-02-18"


async def test_stream_metadata_carries_the_request_id_and_version_at_both_ends(desk, cast):
    created = await desk.ask("POST", "/v1/payments", cast.tenant.headers, ORDER)
    payment_id = created.body["paymentId"]
    path = f"/v1/payments/{payment_id}/cancel"
    assert (await desk.ask("POST", path, cast.tenant.headers)).status == 200
    stub = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    metadata = grpc_metadata(cast.tenant.headers)
    call = stub.WatchPayment(
        payment_pb2.WatchPaymentRequest(payment_id=payment_id),
        metadata=[*metadata, ("request-id", "mine")],
    )
    assert [result.payment.is_final async for result in call] == [True]
    after = dict(await call.trailing_metadata())
    assert (after["request-id"], after["pay-version"]) == ("mine", "2026-02-18")
