"""Who may call what, row by row, over REST and over gRPC, in both wire profiles."""

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

from tests.support.api import refused
from tests.support.desk import DEPLOYED, ORDER, SPEC, Desk, Tenant

PASS = (200, "")
UNKNOWN = (404, "payment_not_found")
WRONG_KEY = (401, "invalid_api_key")
FORBIDDEN = (403, "forbidden")
NO_HEADERS = (401, "missing_auth_headers")
NO_KEY = (401, "missing_api_key")
APP_HERE = (401, "missing_merchant_api_key")
NO_MERCHANT = (404, "merchant_not_found")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Cast:
    """Who appears in these tests, and the one payment that they ask for."""

    tenant: Tenant
    payment_id: str
    names: dict[str, str]

    def headers(self, sent: dict[str, str]) -> dict[str, str]:
        return {name: self.names.get(value, value) for name, value in sent.items()}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cast(desk) -> Cast:
    tenant, other, live = await desk.tenant(), await desk.tenant(), await desk.tenant(live=True)
    suspended = await desk.tenant()
    await suspended.change_partner(status="suspended")
    revoked_id, revoked = await desk.key(tenant.partner.id)
    await revoke(desk, revoked_id)
    _, wallet = await desk.key(None)
    _, live_wallet = await desk.key(None, live=True)
    _, refunds = await desk.key(tenant.partner.id, scopes=("refund", "settle", "manage"))
    created = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    names = {
        "<key>": tenant.secret,
        "<merchant>": tenant.merchant.id,
        "<app>": desk.env["FLORIN_APP_ID"],
        "<revoked app>": (await desk.wallet_app(revoked=True))["App-Id"],
        "<live app>": (await desk.wallet_app(live=True))["App-Id"],
        "<wallet key>": wallet,
        "<live wallet key>": live_wallet,
        "<revoked key>": revoked,
        "<mistyped key>": tenant.secret[:-1] + ("0" if tenant.secret[-1] != "0" else "1"),
        "<key without rights>": refunds,
        "<suspended key>": suspended.secret,
        "<suspended merchant>": suspended.merchant.id,
        "<other merchant>": other.merchant.id,
        "<other key>": other.secret,
        "<live key>": live.secret,
        "<live merchant>": live.merchant.id,
    }
    return Cast(tenant, created.body["paymentId"], names)


async def revoke(desk: Desk, key_id: str) -> None:
    from florin_server.flows import keys

    await keys.revoke(desk.service.app, key_id)


async def outcome(
    desk: Desk, protocol: str, family: str, payment_id: str, headers: dict[str, str]
) -> tuple[int, str]:
    """Status and code of a call that reads a payment; no code if it passes."""
    if protocol == "REST":
        side = "gateway/payment" if family == "G" else "payments"
        answer = await desk.ask("GET", f"/v1/{side}/{payment_id}", headers)
        return PASS if answer.status == 200 else answer.told
    stub: Any = gateway_pb2_grpc.GatewayServiceStub(desk.channel)
    if family == "P":
        stub = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    request = payment_pb2.GetPaymentRequest(payment_id=payment_id)
    return await outcome_of(stub.GetPayment, request, headers)


async def outcome_of(call: Any, request: Any, headers: dict[str, str]) -> tuple[int, str]:
    metadata = [(name.lower(), value) for name, value in headers.items()]
    try:
        await call(request, metadata=metadata, timeout=10)
    except grpc.aio.AioRpcError as error:
        told = refused(error)
        return told.http, told.code
    return PASS


# sent, then what the gateway and the payments family answer
ROWS = [
    ({"Api-Key": "<key>", "App-Id": "<app>"}, (400, "conflicting_auth_headers"), None),
    ({"Api-Key": "nonsense", "App-Id": "nonsense"}, (400, "conflicting_auth_headers"), None),
    ({"Merchant-Id": "<merchant>"}, NO_HEADERS, NO_KEY),
    ({"Client-Id": "c"}, (401, "missing_app_id"), NO_KEY),
    ({"Client-Id": "c", "Merchant-Id": "<merchant>"}, (401, "missing_app_id"), NO_KEY),
    ({"App-Id": "<app>"}, (401, "missing_client_id"), APP_HERE),
    ({"App-Id": "unknown"}, (401, "missing_client_id"), APP_HERE),
    ({"App-Id": "<app>", "Client-Id": ""}, (401, "missing_client_id"), APP_HERE),
    ({"App-Id": "<app>", "Client-Id": "c"}, PASS, APP_HERE),
    ({"App-Id": "<app>", "Client-Id": "c", "Merchant-Id": "<merchant>"}, PASS, APP_HERE),
    ({"App-Id": "app_unknown", "Client-Id": "c"}, (401, "invalid_app_id"), APP_HERE),
    ({"App-Id": "<revoked app>", "Client-Id": "c"}, (401, "invalid_app_id"), APP_HERE),
    ({"App-Id": "<live app>", "Client-Id": "c"}, UNKNOWN, APP_HERE),
    ({"Api-Key": "nonsense", "Merchant-Id": "<merchant>"}, WRONG_KEY, WRONG_KEY),
    ({"Api-Key": "<mistyped key>", "Merchant-Id": "<merchant>"}, WRONG_KEY, WRONG_KEY),
    ({"Api-Key": "<revoked key>", "Merchant-Id": "<merchant>"}, WRONG_KEY, WRONG_KEY),
    ({"Api-Key": "<revoked key>"}, WRONG_KEY, WRONG_KEY),
    ({"Api-Key": "<wallet key>"}, PASS, FORBIDDEN),
    ({"Api-Key": "<wallet key>", "Merchant-Id": "<merchant>"}, PASS, FORBIDDEN),
    ({"Api-Key": "<live wallet key>", "Merchant-Id": "<merchant>"}, UNKNOWN, FORBIDDEN),
    ({"Api-Key": "<key>", "Merchant-Id": "<merchant>"}, PASS, PASS),
    ({"Api-Key": "<key>", "Client-Id": "c", "Merchant-Id": "<merchant>"}, PASS, PASS),
    ({"Api-Key": "<key>", "App-Id": "", "Merchant-Id": "<merchant>"}, PASS, PASS),
    ({"Api-Key": "<key without rights>", "Merchant-Id": "<merchant>"}, FORBIDDEN, FORBIDDEN),
    ({"Api-Key": "<key without rights>"}, FORBIDDEN, FORBIDDEN),
    (
        {"Api-Key": "<suspended key>", "Merchant-Id": "<suspended merchant>"},
        FORBIDDEN,
        FORBIDDEN,
    ),
    ({"Api-Key": "<key>"}, PASS, (401, "missing_merchant_id")),
    ({"Api-Key": "<key>", "Merchant-Id": ""}, PASS, (401, "missing_merchant_id")),
    ({"Api-Key": "<key>", "Merchant-Id": "unknown"}, PASS, NO_MERCHANT),
    ({"Api-Key": "<key>", "Merchant-Id": "<other merchant>"}, PASS, NO_MERCHANT),
    ({"Api-Key": "<key>", "Merchant-Id": "<live merchant>"}, PASS, NO_MERCHANT),
    ({"Api-Key": "<live key>", "Merchant-Id": "<merchant>"}, UNKNOWN, NO_MERCHANT),
    ({"Api-Key": "<live key>", "Merchant-Id": "<live merchant>"}, UNKNOWN, UNKNOWN),
    ({"Api-Key": "<other key>", "Merchant-Id": "<other merchant>"}, PASS, UNKNOWN),
]


@pytest.mark.parametrize("profile", [{}, SPEC, DEPLOYED], ids=["no header", "spec", "deployed"])
@pytest.mark.parametrize("protocol", ["REST", "gRPC"])
async def test_every_row_of_the_credential_table(desk, cast, protocol, profile):
    wrong = []
    for sent, gateway, payments in ROWS:
        headers = {**cast.headers(sent), **profile}
        for family, expected in (("G", gateway), ("P", payments or gateway)):
            told = await outcome(desk, protocol, family, cast.payment_id, headers)
            if told != expected:
                wrong.append((family, sent, told, expected))
    assert not wrong


@pytest.mark.parametrize("protocol", ["REST", "gRPC"])
@pytest.mark.parametrize("sent", [{}, {"Api-Key": "", "App-Id": "", "Client-Id": ""}])
async def test_no_credential_at_all(desk, cast, protocol, sent):
    for profile, payments in (({}, NO_HEADERS), (SPEC, NO_HEADERS), (DEPLOYED, NO_KEY)):
        headers = {**sent, **profile}
        told = await outcome(desk, protocol, "G", cast.payment_id, headers)
        assert told == NO_HEADERS
        told = await outcome(desk, protocol, "P", cast.payment_id, headers)
        assert told == payments
    both = {**SPEC, **DEPLOYED}
    assert await outcome(desk, protocol, "P", cast.payment_id, both) == NO_HEADERS


async def test_the_payment_of_another_tenant_is_as_unknown_as_one_that_never_was(desk, cast):
    headers = cast.headers({"Api-Key": "<other key>", "Merchant-Id": "<other merchant>"})
    headers["Request-Id"] = "same"
    for path in ("", "/status", "/events"):
        theirs = await desk.ask("GET", f"/v1/payments/{cast.payment_id}{path}", headers)
        nobodys = await desk.ask("GET", f"/v1/payments/pay_{'0' * 27}{path}", headers)
        assert theirs.told == UNKNOWN
        assert theirs.text == nobodys.text
    cancel = await desk.ask("POST", f"/v1/payments/{cast.payment_id}/cancel", headers)
    assert cancel.told == UNKNOWN
    status = await desk.rest.status(cast.payment_id)
    assert status["status"] == "requires_action"


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
        assert (await desk.ask(method, path + call, desk.rest.wallet)).told == UNKNOWN


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
async def test_a_key_does_what_its_scopes_say(desk, cast, scope, may):
    _, secret = await desk.key(cast.tenant.partner.id, scopes=(scope,))
    headers = {**cast.tenant.headers, "Api-Key": secret}
    # nothing is there: whoever is let in is told so, or that its body is wanting
    one, side = "/v1/payments/pay_0", "/v1/gateway/payment/pay_0"
    calls = {
        "create": ("POST", "/v1/payments"),
        "detail": ("GET", one),
        "status": ("GET", f"{one}/status"),
        "merchant cancel": ("POST", f"{one}/cancel"),
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
    await revoke(desk, key_id)
    desk.clock.advance(5)
    assert (await desk.ask("GET", path, headers)).told == WRONG_KEY


async def test_a_suspended_partner_stops_within_five_seconds(desk):
    tenant = await desk.tenant()
    assert (await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)).status == 201
    await tenant.change_partner(status="suspended")
    desk.clock.advance(5)
    assert (await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)).told == FORBIDDEN


@pytest.mark.parametrize("path", ["/v1/payments", "/v1/merchant/payment"])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"status": "suspended"}, FORBIDDEN),
        ({"status": "inactive"}, FORBIDDEN),
        ({"deleted_at_us": 1}, NO_MERCHANT),
    ],
)
async def test_who_may_not_take_new_payments_keeps_the_old_ones(desk, path, change, expected):
    tenant = await desk.tenant()
    created = await desk.ask("POST", path, tenant.headers, ORDER)
    one = f"/v1/payments/{created.body['paymentId']}"
    await tenant.change_merchant(**change)
    before = desk.rows()
    assert (await desk.ask("POST", path, tenant.headers, ORDER)).told == expected
    # a stranger to the schema learns of its own standing first
    assert (await desk.ask("POST", path, tenant.headers, {})).told == expected
    assert desk.rows() == before
    assert (await desk.ask("GET", one, tenant.headers)).status == 200
    assert (await desk.ask("GET", f"{one}/status", tenant.headers)).status == 200
    assert (await desk.ask("POST", f"{one}/cancel", tenant.headers)).status == 200


# what comes first in the order of checks hides what comes later
async def test_faults_of_a_request_are_not_told_to_strangers(desk, cast):
    side = f"/v1/gateway/payment/{cast.payment_id}"
    for path in (f"{side}/options", f"{side}/confirm?maxPollMs=x", f"{side}/options?%zz"):
        answer = await desk.ask("POST", path, {}, data=b"{not json")
        assert answer.told == NO_HEADERS, path
        assert (await desk.ask("POST", path, {"Api-Key": "x"}, data=b"[]")).told == WRONG_KEY
    for path in (f"{side}/status?maxPollMs=-1", f"{side}/events"):
        headers = {"Last-Event-ID": "x"}
        assert (await desk.ask("GET", path, headers)).told == NO_HEADERS
    assert (await desk.ask("POST", "/v1/payments", {}, {})).told == NO_HEADERS


async def test_the_order_of_checks(desk, cast):
    key, app = cast.tenant.headers, desk.rest.wallet
    create, side = "/v1/payments", f"/v1/gateway/payment/{cast.payment_id}"
    bad = {"Pay-Version": "bad"}
    long_key = {"Idempotency-Key": "k" * 256}
    # route, then credential
    assert (await desk.ask("GET", "/v1/nowhere", {})).told == (404, "invalid_params")
    # size and media type, then credential
    answer = await desk.ask("POST", f"{side}/options", {"Content-Type": "text/plain"}, {})
    assert answer.told == (415, "invalid_params")
    answer = await desk.ask("POST", f"{side}/options", {}, data=b" " * 65_537)
    assert answer.told == (413, "invalid_params")
    # credential, then version
    assert (await desk.ask("GET", side, bad)).told == NO_HEADERS
    answer = await desk.ask("POST", create, {**key, **bad, "Merchant-Id": "unknown"}, ORDER)
    assert answer.told == NO_MERCHANT
    # version, then idempotency key
    answer = await desk.ask("POST", create, {**key, **bad, **long_key}, ORDER)
    assert answer.told == (400, "invalid_api_version")
    # idempotency key, then body
    answer = await desk.ask("POST", create, {**key, **long_key}, {})
    assert answer.told == (400, "invalid_params")
    # body, then resource
    answer = await desk.ask("POST", "/v1/gateway/payment/pay_0/options", app, {})
    assert answer.told == (400, "params_validation")
    answer = await desk.ask("POST", "/v1/gateway/payment/pay_0/options", app, {"accounts": []})
    assert answer.told == UNKNOWN
    # resource, then state
    await desk.rest.merchant_cancel((await desk.rest.create(ORDER))["paymentId"])
    answer = await desk.ask("POST", "/v1/payments/pay_0/cancel", key)
    assert answer.told == UNKNOWN


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
    status, headers, body = await desk.raw(head % (path.encode(), name.encode(), value))
    assert (status, body["code"]) == (400, "header_not_ascii")
    assert headers["request-id"] == body["requestId"]
    # on a path that does not exist the path is the fault
    status, _, body = await desk.raw(head % (b"/v1/nowhere", name.encode(), value))
    assert (status, body["code"]) == (404, "invalid_params")


async def test_other_headers_may_hold_anything(desk, cast):
    credentials = f"App-Id: {desk.env['FLORIN_APP_ID']}\r\nClient-Id: c\r\n".encode()
    path = f"/v1/gateway/payment/{cast.payment_id}".encode()
    head = (
        b"GET %s HTTP/1.1\r\nHost: x\r\n%sUser-Agent: caf\xc3\xa9\r\nRequest-Id: \xc3\xa9\r\n\r\n"
    )
    status, headers, _ = await desk.raw(head % (path, credentials))
    assert status == 200
    assert headers["request-id"].isascii()


VERSIONS = [
    ("2026-02-18", PASS),
    ("2026-02-19.preview", PASS),
    ("", (400, "invalid_api_version")),
    ("latest", (400, "invalid_api_version")),
    ("2026-2-18", (400, "invalid_api_version")),
    ("2026-02-30", (400, "invalid_api_version")),
    ("2026-02-18.beta", (400, "invalid_api_version")),
    ("2026-02-18.preview.preview", (400, "invalid_api_version")),
    ("2026-02-18 2026-02-19", (400, "invalid_api_version")),
    ("2026-02-17", (400, "unknown_api_version")),
    ("2026-02-19", (400, "unknown_api_version")),
    ("2026-02-18.preview", (400, "unknown_api_version")),
    ("9999-12-31", (400, "unknown_api_version")),
]


@pytest.mark.parametrize("protocol", ["REST", "gRPC"])
@pytest.mark.parametrize("header", ["Pay-Version", "WCP-Version"])
@pytest.mark.parametrize(("version", "expected"), VERSIONS)
async def test_both_headers_select_a_version(desk, cast, protocol, header, version, expected):
    for family, credential in (("P", cast.tenant.headers), ("G", desk.rest.wallet)):
        headers = {**credential, header: version}
        assert await outcome(desk, protocol, family, cast.payment_id, headers) == expected


@pytest.mark.parametrize("protocol", ["REST", "gRPC"])
async def test_only_pay_version_is_read_where_both_are_sent(desk, cast, protocol):
    for sent, expected in (
        ({"Pay-Version": "2026-02-18", "WCP-Version": "bad"}, PASS),
        ({"Pay-Version": "", "WCP-Version": "2026-02-18"}, (400, "invalid_api_version")),
        ({"api-version": "bad"}, PASS),
    ):
        headers = {**cast.tenant.headers, **sent}
        assert await outcome(desk, protocol, "P", cast.payment_id, headers) == expected


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


@pytest.mark.parametrize("protocol", ["REST", "gRPC"])
async def test_nobody_goes_below_its_pin(desk, cast, protocol):
    preview = await desk.tenant(pin="2026-02-19.preview")
    app = await desk.wallet_app(pin="2026-02-19.preview")
    older = (400, "api_version_downgrade")
    for header in ("Pay-Version", "WCP-Version"):
        for family, credential in (("P", preview.headers), ("G", app)):
            headers = {**credential, header: "2026-02-18"}
            assert await outcome(desk, protocol, family, cast.payment_id, headers) == older
    answer = await desk.ask(
        "GET", f"/v1/gateway/payment/{cast.payment_id}", {**app, "Pay-Version": "2026-02-18"}
    )
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
            told = PASS if answer.status == 200 else answer.told
            if told == PASS:
                assert answer.body == {
                    "paymentId": "nonsense",
                    "options": [],
                    "collectData": None,
                }
        else:
            request = gateway_pb2.GetPaymentOptionsRequest(payment_id="nonsense")
            told = await outcome_of(stub.GetPaymentOptions, request, headers)
        assert told == expected


async def test_grpc_callers_are_told_who_they_spoke_to(desk, cast):
    stub = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    metadata = [(name.lower(), value) for name, value in cast.tenant.headers.items()]
    call = stub.GetPayment(
        payment_pb2.GetPaymentRequest(payment_id=cast.payment_id),
        metadata=[*metadata, ("request-id", "mine")],
    )
    assert isinstance(await call, merchant_pb2.PaymentDetail)
    told = {**dict(await call.initial_metadata()), **dict(await call.trailing_metadata())}
    assert told["request-id"] == "mine"
    assert told["pay-version"] == "2026-02-18"
