"""Test calls through the gateway, in process and over a channel."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from grpc_rest_gateway import GatewaySettings, JsonProfile, PlainResponse

from tests.support.gateway_harness import KEY, open_gateway

pytestmark = pytest.mark.long

STATUS = "/v1/gateway/payment/pay_1/status"
CONFIRM = "/v1/gateway/payment/pay_1/confirm"
OUTPUTS = {"optionId": "o", "results": [{"type": "walletRpc", "data": ["0xab", {"a": [1]}]}]}


@pytest.fixture(params=["local", "remote"])
async def running(request):
    settings = GatewaySettings(cors_paths=("/v1/gateway/*", "/versions"))
    async with open_gateway(request.param, settings) as started:
        yield started


async def test_status_is_returned_as_json(running):
    answer = await running.call("GET", STATUS)
    assert answer.status == 200
    assert answer.json() == {
        "status": "requires_action",
        "isFinal": False,
        "pollInMs": 1000,
        "info": None,
    }


async def test_every_answer_has_its_headers(running):
    answer = await running.call("GET", STATUS, headers={**KEY, "Request-Id": "my.id-1"})
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["request-id"] == "my.id-1"
    assert answer.headers["pay-version"] == answer.headers["wcp-version"] == "2026-02-18"
    assert "server" not in answer.headers
    assert "internal" not in answer.headers


async def test_a_malformed_request_id_is_replaced(running):
    answer = await running.call("GET", STATUS, headers={**KEY, "Request-Id": "a b"})
    assert answer.headers["request-id"] != "a b"
    assert running.service.seen[0][2]["request-id"] == answer.headers["request-id"]


async def test_only_listed_headers_become_metadata(running):
    sent = {**KEY, "Sdk-Name": "kit", "Client-Id": "", "Pay-Version": "", "X-Evil": "1"}
    await running.call("GET", STATUS, headers={**sent, "Grpc-Evil": "1", "Cookie": "x"})
    metadata = running.service.seen[0][2]
    assert metadata["api-key"] == "secret"
    assert metadata["sdk-name"] == "kit"
    assert metadata["pay-version"] == ""
    assert not {"client-id", "x-evil", "grpc-evil", "cookie"} & set(metadata)


async def test_a_replayed_answer_says_so_with_201(running):
    body = {"amount": {"unit": "iso4217/USD", "value": "1"}}
    for path in ("/v1/payments", "/v1/merchant/payment"):
        answer = await running.call("POST", path, body)
        assert answer.status == 201
        assert answer.headers["idempotent-replayed"] == "true"
        assert answer.headers["ratelimit"] == '"key";r=1;t=1'


async def test_path_beats_body_and_query(running):
    body = {**OUTPUTS, "paymentId": 7}
    await running.call("POST", CONFIRM + "?paymentId=pay_3&payment_id=pay_4", body)
    assert running.service.seen[0][1].payment_id == "pay_1"


async def test_query_beats_body_where_the_field_says_so(running):
    path = "/v1/gateway/payment/pay_1/options?includePaymentInfo=false&accounts=x"
    await running.call("POST", path, {"accounts": ["a"], "includePaymentInfo": True})
    request = running.service.seen[0][1]
    assert request.include_payment_info is False
    assert request.HasField("include_payment_info")
    assert list(request.accounts) == ["a"]


async def test_outputs_reach_the_service_as_compact_json(running):
    await running.call("POST", CONFIRM, OUTPUTS)
    result = running.service.seen[0][1].results[0]
    assert list(result.output_json) == ['"0xab"', '{"a":[1]}']


@pytest.mark.parametrize(
    ("headers", "params"),
    [
        ({}, '["0x1",{"a":1}]'),
        ({"Pay-Version": "2026-02-18"}, '["0x1",{"a":1}]'),
        ({"Pay-Version": "2026-02-18", "WCP-Version": "2026-02-18"}, '["0x1",{"a":1}]'),
        ({"WCP-Version": "2026-02-18"}, ["0x1", {"a": 1}]),
        ({"WCP-Version": ""}, ["0x1", {"a": 1}]),
    ],
)
async def test_the_profile_follows_from_header_names(running, headers, params):
    path = "/v1/gateway/payment/pay_1/options"
    answer = await running.call("POST", path, {"accounts": []}, {**KEY, **headers})
    assert answer.json()["options"][0]["actions"][0]["data"]["params"] == params


async def test_an_id_is_decoded_once_and_only_within_its_segment(running):
    target = "/v1/gateway/payment/https%253A%252F%252Fx%2Fpay_1%2Fstatus/status"
    await running.call("GET", target)
    assert running.service.seen[0][1].payment_id == "https%3A%2F%2Fx/pay_1/status"


@pytest.mark.parametrize("path", ["//v1/gateway/payment/pay_1/status", STATUS + "/"])
async def test_extra_slashes_are_forgiven(running, path):
    assert (await running.call("GET", path)).status == 200


async def test_an_error_of_the_service_keeps_code_status_and_details(running):
    answer = await running.call("GET", "/v1/gateway/payment/banned/status")
    assert answer.status == 451
    assert answer.json() == {
        "code": "sanctioned_user",
        "message": "Sanctioned user",
        "details": {"index": "3"},
        "requestId": answer.headers["request-id"],
    }
    assert answer.headers["pay-version"] == "2026-02-18"


async def test_retry_after_is_sent_in_whole_seconds(running):
    answer = await running.call("GET", "/v1/gateway/payment/busy/status")
    assert (answer.status, answer.headers["retry-after"]) == (429, "2")


@pytest.mark.parametrize(("payment", "status"), [("broken", 500), ("bare", 500), ("down", 503)])
async def test_failure_without_a_code_reveals_no_details(running, payment, status):
    answer = await running.call("GET", f"/v1/gateway/payment/{payment}/status")
    assert answer.status == status
    assert answer.json()["code"] == "internal_error"
    assert answer.json()["message"] == "Internal error"


async def test_a_late_answer_is_503(running):
    headers = {**KEY, "Grpc-Timeout": "80m"}
    answer = await running.call("GET", "/v1/gateway/payment/slow/status", headers=headers)
    assert (answer.status, answer.json()["code"]) == (503, "internal_error")


@pytest.mark.parametrize("kind", ["local", "remote"])
async def test_the_log_says_which_call_was_late_and_not_that_a_client_was_in_a_hurry(kind, caplog):
    path = "/v1/gateway/payment/slow/status"
    async with open_gateway(kind, GatewaySettings(deadline_s=0.1)) as running:
        await running.call("GET", path, headers={**KEY, "Grpc-Timeout": "80m"})
        assert "took longer" not in caplog.text
        answer = await running.call("GET", path)
    assert answer.status == 503
    (text,) = [record for record in caplog.records if "took longer" in record.message]
    assert text.message == "GatewayService.GetPaymentStatus took longer than 0.1 s"
    assert text.request_id == answer.headers["request-id"]


@pytest.mark.parametrize(
    ("body", "issue"),
    [
        (b"{}", {"field": "optionId", "message": "is required"}),
        (
            b'{"optionId":"o","results":[{"type":"walletRpc","data":7}]}',
            {"field": "results[0].data", "message": "must be an array"},
        ),
        (
            b'{"optionId":"o","results":[{"type":"build","data":[]}]}',
            {"field": "results[0].type", "message": "is not a known value"},
        ),
    ],
)
async def test_a_fault_of_the_body_names_the_member(running, body, issue):
    answer = await running.call("POST", CONFIRM, body)
    assert (answer.status, answer.json()["code"]) == (400, "params_validation")
    assert answer.json()["issues"][0] == issue
    assert answer.headers["pay-version"] == "2026-02-18"
    assert not running.service.seen


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"a":1,"a":2}', b'{"a":"\\u0000"}', b"NaN"])
async def test_body_that_is_not_a_strict_json_object_is_refused(running, body):
    answer = await running.call("POST", CONFIRM, body)
    assert (answer.status, answer.json()["code"]) == (400, "params_validation")


@pytest.mark.parametrize(
    "target",
    [
        STATUS + "?maxPollMs=x",
        STATUS + "?maxPollMs=-1",
        STATUS + "?maxPollMs=1.0",
        STATUS + "?maxPollMs=",
        STATUS + "?maxPollMs=1&maxPollMs=1",
        "/v1/gateway/payment/pay_1/events?x=%zz",
        STATUS + "?maxPollMs=%zz",
    ],
)
async def test_a_fault_of_the_query_is_invalid_params(running, target):
    answer = await running.call("GET", target)
    assert (answer.status, answer.json()["code"]) == (400, "invalid_params")


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", CONFIRM, b"{"),
        ("GET", STATUS + "?maxPollMs=x", None),
        ("GET", "/v1/gateway/payment/pay_1/events?x=%zz", None),
    ],
)
async def test_strangers_learn_of_their_credential_first(running, method, target, body):
    answer = await running.call(method, target, body, headers={})
    assert (answer.status, answer.json()["code"]) == (401, "missing_auth_headers")


async def test_unknown_parameters_and_members_are_ignored(running):
    assert (await running.call("GET", STATUS + "?a=1&a=2&info=3")).status == 200
    assert (await running.call("POST", CONFIRM, {**OUTPUTS, "more": 1})).status == 200


async def test_an_unknown_path_is_404(running):
    answer = await running.call("GET", "/v1/gateway/payment/pay_1/nope", headers={})
    assert (answer.status, answer.json()["code"]) == (404, "invalid_params")
    assert answer.headers["access-control-allow-origin"] == "*"


async def test_a_wrong_method_is_405_with_allow(running):
    answer = await running.call("POST", "/v1/payments/pay_1", b"", headers={})
    assert (answer.status, answer.headers["allow"]) == (405, "GET")
    answer = await running.call("DELETE", STATUS, headers={})
    assert (answer.status, answer.headers["allow"]) == (405, "GET, OPTIONS")


async def test_a_malformed_escape_is_400(running):
    paths = ("/v1/gateway/payment/%zz/status", "/v1/gateway/payment/%ff/status")
    for method, path in itertools.product(("GET", "PUT"), paths):
        answer = await running.call(method, path)
        assert (answer.status, answer.json()["code"]) == (400, "invalid_params")


@pytest.mark.parametrize("name", ["Api-Key", "Merchant-Id", "Sdk-Name", "Idempotency-Key"])
@pytest.mark.parametrize("value", ["schlüssel", "a\tb"])
async def test_non_ascii_header_is_refused_before_authentication(running, name, value):
    answer = await running.call("GET", STATUS, headers={name: value})
    assert (answer.status, answer.json()["code"]) == (400, "header_not_ascii")


async def test_duplicate_reserved_header_is_refused(running):
    answer = await running.call("GET", STATUS, headers={"Api-Key": "a", "api-key": "a"})
    assert (answer.status, answer.json()["code"]) == (400, "invalid_params")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Content-Encoding": "identity"}, 415),
        ({}, 200),
    ],
)
async def test_bodies_are_json_and_not_encoded(running, headers, status):
    answer = await running.call("POST", CONFIRM, OUTPUTS, {**KEY, **headers})
    assert answer.status == status
    if status == 415:
        assert answer.json()["code"] == "invalid_params"


async def test_a_body_beyond_the_bound_of_its_route_is_413(running):
    padded = b'{"optionId":"' + b"x" * 65536 + b'","results":[]}'
    answer = await running.call("POST", CONFIRM, padded)
    assert (answer.status, answer.json()["code"]) == (413, "invalid_params")
    payment = b'{"amount":{"unit":"u","value":"1"},"x":"' + b"x" * 65536 + b'"}'
    assert (await running.call("POST", "/v1/payments", payment)).status == 201


async def test_a_route_without_a_body_ignores_it(running):
    path = "/v1/gateway/payment/pay_1/cancel"
    answer = await running.call("POST", path, b"not json", {**KEY, "Content-Type": "text/plain"})
    assert answer.status == 200


async def test_browsers_may_ask_first_without_credentials(running):
    answer = await running.call("OPTIONS", CONFIRM, headers={"Origin": "https://w.example"})
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-allow-methods"] == "GET, POST"
    assert "last-event-id" in answer.headers["access-control-allow-headers"]
    assert answer.headers["access-control-max-age"] == "7200"
    assert (await running.call("OPTIONS", "/v1/payments", headers={})).status == 405
    assert (await running.call("OPTIONS", "/nowhere", headers={})).status == 404


@pytest.mark.parametrize("headers", [{}, KEY])
async def test_browsers_may_read_wallet_answers_and_errors_only(running, headers):
    answer = await running.call("GET", STATUS, headers=headers)
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "request-id" in answer.headers["access-control-expose-headers"]
    answer = await running.call("GET", "/v1/payments/pay_1", headers=headers)
    assert "access-control-allow-origin" not in answer.headers


async def test_plain_routes_stand_beside_the_rpcs(running):
    async def spec(request):
        return PlainResponse.from_json({"version": request.variables["version"]}, 503)

    running.gateway.add_route("GET", "/spec/{version}/openapi.json", spec, cors=True)
    answer = await running.call("GET", "/spec/2026-02-18/openapi.json", headers={})
    assert (answer.status, answer.json()) == (503, {"version": "2026-02-18"})
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("query", "value"), [("", ""), ("?a=1", "1"), ("?b=2&a=&a=1", ""), ("?a=%31&a=2", "1")]
)
async def test_plain_request_returns_the_first_value_of_a_parameter(running, query, value):
    async def read_parameter(request):
        return PlainResponse.from_json(request.get_parameter("a"))

    running.gateway.add_route("GET", "/parameter", read_parameter)
    assert (await running.call("GET", f"/parameter{query}", headers={})).json() == value


async def test_plain_request_returns_the_values_of_a_header(running):
    async def read_header(request):
        values = [value.decode() for value in request.list_header_values(b"x-one")]
        return PlainResponse.from_json([values, request.get_header(b"x-one")])

    running.gateway.add_route("GET", "/header", read_header)
    assert (await running.call("GET", "/header", headers={"X-One": "1"})).json() == [["1"], "1"]
    assert (await running.call("GET", "/header", headers={})).json() == [[], ""]


async def test_a_read_ends_when_its_client_leaves(running):
    _, writer = await running.send("GET", "/v1/gateway/payment/slow/status")
    async with asyncio.timeout(5):
        await running.service.entered.wait()
        writer.close()
        await running.service.cancelled.wait()


async def test_a_confirm_runs_to_its_end_without_its_client(running):
    _, writer = await running.send(
        "POST", CONFIRM, b'{"optionId":"slow","results":[{"type":"walletRpc","data":[]}]}'
    )
    async with asyncio.timeout(5):
        await running.service.entered.wait()
        writer.transport.abort()
        # after another answer the gateway has noticed that the client left
        await running.call("GET", STATUS)
        running.service.gate.set()
        await running.service.confirmed.wait()


async def test_a_gateway_that_speaks_canonical_json_speaks_nothing_else():
    typed = {"type": "ACTION_RESULT_TYPE_WALLET_RPC", "data": ['"0xab"']}
    confirm = {"optionId": "o", "results": [typed]}
    async with open_gateway("local", GatewaySettings(profile=JsonProfile.CANONICAL)) as running:
        for version in ({}, {"WCP-Version": "2026-02-18"}):
            answer = await running.call("GET", STATUS, headers={**KEY, **version})
            assert answer.json() == {
                "status": "PAYMENT_STATUS_REQUIRES_ACTION",
                "pollInMs": "1000",
            }
        assert (await running.call("POST", CONFIRM, confirm)).status == 200
        assert running.service.seen[-1][1].results[0].output_json == ['"0xab"']
        for method, target, body, code in (
            ("GET", f"{STATUS}?nope=1", None, "invalid_params"),
            ("POST", CONFIRM, OUTPUTS, "params_validation"),
            ("POST", CONFIRM, "text", "params_validation"),
            ("POST", CONFIRM, [], "params_validation"),
            ("POST", CONFIRM, {**confirm, "nope": 1}, "params_validation"),
        ):
            answer = await running.call(method, target, body)
            assert (answer.status, answer.json()["code"]) == (400, code), body
