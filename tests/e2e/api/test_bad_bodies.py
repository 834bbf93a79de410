"""Requests refused before any business rule.

Refused requests leave no row.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import pytest_asyncio

from tests.support.service_harness import CREATE, ORDER, PaymentOffer, ServiceHarness, call_refused

VALIDATION = (400, "params_validation")
PARAMS = (400, "invalid_params")
USD = {"unit": "iso4217/USD", "value": "1250"}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def offer(desk) -> PaymentOffer:
    return await desk.offer()


def path_of(call: str, offer: PaymentOffer) -> str:
    return CREATE if call == "create" else f"/v1/gateway/payment/{offer.payment_id}/{call}"


def headers_of(desk: ServiceHarness, call: str) -> dict[str, str]:
    return desk.rest.merchant if call == "create" else desk.rest.wallet


def good_body(call: str, offer: PaymentOffer) -> dict[str, Any]:
    return {
        "create": ORDER,
        "options": {"accounts": [offer.wallet.account]},
        "fetch": {"optionId": offer.option_id, "data": ""},
        "confirm": {
            "optionId": offer.option_id,
            "results": [{"type": "walletRpc", "data": offer.outputs}],
        },
    }[call]


CALLS = ["create", "options", "fetch", "confirm"]
NOT_JSON = {
    "nothing": b"{",
    "trailing text": b"{} x",
    "trailing comma": b'{"a": 1,}',
    "single quotes": b"{'a': 1}",
    "a comment": b"{} // x",
    "not UTF-8": b'{"a": "\xff"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "a mark before it": b"\xef\xbb\xbf{}",
    "an array": b"[]",
    "a text": b'"x"',
    "a number": b"7",
    "NaN": b'{"a": NaN}',
    "Infinity": b'{"a": Infinity}',
    "minus Infinity": b'{"a": -Infinity}',
    "a number beyond a double": b'{"a": 1e999}',
    "a lone surrogate": b'{"a": "\\ud800"}',
    "a reversed surrogate pair": b'{"a": "\\udc00\\ud800"}',
    "U+0000": b'{"a": "\\u0000"}',
    "U+0000 in a name": b'{"a\\u0000": 1}',
    "65 levels": b'{"a":' * 65 + b"1" + b"}" * 65,
    "100 000 levels": b"[" * 50_000,
    "a member twice": b'{"a": 1, "a": 1}',
    "a member twice, written in two ways": b'{"a": 1, "\\u0061": 2}',
    "a member twice, deep inside": b'{"a": [{"b": {"c": 1, "c": 2}}]}',
}


@pytest.mark.parametrize("call", CALLS)
async def test_body_that_is_not_a_strict_json_object_is_refused(desk, offer, call):
    for why, body in NOT_JSON.items():
        answer = await call_refused(
            desk, "POST", path_of(call, offer), headers_of(desk, call), data=body
        )
        assert answer.refusal == VALIDATION, why


@pytest.mark.parametrize("call", CALLS)
async def test_an_empty_body_is_an_empty_object(desk, offer, call):
    path, headers = path_of(call, offer), headers_of(desk, call)
    for body in (b"", b"{}"):
        answer = await call_refused(desk, "POST", path, headers, data=body)
        assert answer.refusal == VALIDATION
        assert answer.body["issues"], answer.text


@pytest.mark.parametrize("call", CALLS)
async def test_duplicate_members_are_refused(desk, offer, call):
    body = json.dumps(good_body(call, offer))
    name = next(iter(good_body(call, offer)))
    twice = body[:-1] + f', "{name}": ' + json.dumps(good_body(call, offer)[name]) + "}"
    answer = await call_refused(
        desk, "POST", path_of(call, offer), headers_of(desk, call), data=twice
    )
    assert answer.refusal == VALIDATION


MISTYPED = {
    "create": [
        ("amount", "missing", ...),
        ("amount", "null", None),
        ("amount", "a text", "iso4217/USD"),
        ("amount", "a list", [USD]),
        ("amount.unit", "missing", {"value": "1"}),
        ("amount.unit", "a number", {**USD, "unit": 840}),
        ("amount.unit", "empty", {**USD, "unit": ""}),
        ("amount.value", "missing", {"unit": "iso4217/USD"}),
        ("amount.value", "null", {**USD, "value": None}),
        ("amount.value", "a number", {**USD, "value": 1250}),
        ("amount.value", "a boolean", {**USD, "value": True}),
        ("referenceId", "a number", 7),
        ("referenceId", "an object", {}),
        ("expiresAt", "a text", "1800000900"),
        ("expiresAt", "a fraction", 1800000900.0),
        ("expiresAt", "a boolean", True),
        ("expiresAt", "beyond 64 bits", 2**63),
    ],
    "options": [
        ("accounts", "missing", ...),
        ("accounts", "null", None),
        ("accounts", "a text", "eip155:1:0x0"),
        ("accounts[0]", "a number in it", [7]),
        ("accounts[1]", "null in it", ["eip155:1:0x0", None]),
        ("includePaymentInfo", "a text", "true"),
        ("includePaymentInfo", "a number", 1),
    ],
    "fetch": [
        ("optionId", "missing", ...),
        ("optionId", "null", None),
        ("optionId", "a number", 7),
        ("optionId", "empty", ""),
        ("optionId", "too long", "x" * 65_537),
        ("data", "an object", {}),
    ],
    "confirm": [
        ("optionId", "missing", ...),
        ("optionId", "a list", []),
        ("results", "missing", ...),
        ("results", "null", None),
        ("results", "an object", {}),
        ("results[0]", "a text in it", ["0x"]),
        ("results[0].type", "missing", [{"data": ["0x"]}]),
        ("results[0].type", "unknown", [{"type": "magic", "data": ["0x"]}]),
        ("results[0].type", "another action's", [{"type": "build", "data": ["0x"]}]),
        ("results[0].type", "a number", [{"type": 1, "data": ["0x"]}]),
        ("results[0].data", "missing", [{"type": "walletRpc"}]),
        ("results[0].data", "a text", [{"type": "walletRpc", "data": "0x"}]),
        ("results", "too many", [{"type": "walletRpc", "data": []}] * 65),
    ],
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_member_that_is_missing_mistyped_or_out_of_bounds(desk, offer, call):
    for field, why, value in MISTYPED[call]:
        name = field.partition(".")[0].partition("[")[0]
        body = {**good_body(call, offer), name: value}
        if value is ...:
            del body[name]
        path, headers = path_of(call, offer), headers_of(desk, call)
        if len(json.dumps(body)) > 65_536:
            continue
        answer = await call_refused(desk, "POST", path, headers, body=body)
        assert answer.refusal == VALIDATION, (field, why, answer.text)
        assert field in [issue["field"] for issue in answer.body["issues"]], (why, answer.text)
        assert all(issue["message"] for issue in answer.body["issues"])
    assert (await desk.rest.status(offer.payment_id))["status"] == "requires_action"


async def test_all_invalid_body_fields_are_reported_together(desk):
    body = {"amount": {"unit": 1}, "referenceId": 2, "expiresAt": "3"}
    answer = await call_refused(desk, "POST", CREATE, desk.rest.merchant, body=body)
    fields = {issue["field"] for issue in answer.body["issues"]}
    assert fields == {"amount.unit", "amount.value", "referenceId", "expiresAt"}


@pytest.mark.parametrize(
    "query",
    [
        "maxPollMs=",
        "maxPollMs=-1",
        "maxPollMs=1.5",
        "maxPollMs=1e3",
        "maxPollMs=x",
        "maxPollMs=%20",
        "maxPollMs=0x10",
        "maxPollMs=1&maxPollMs=1",
        "maxPollMs=%zz",
        "a=%ff",
    ],
)
async def test_a_bad_query_of_every_call_that_waits(desk, offer, query):
    side, text = f"/v1/gateway/payment/{offer.payment_id}", f"/v1/payments/{offer.payment_id}"
    also = f"/v1/merchant/payment/{offer.payment_id}"
    for path, headers in (
        (f"{side}/status", desk.rest.wallet),
        (f"{text}/status", desk.rest.merchant),
        (f"{also}/status", desk.rest.merchant),
    ):
        assert (await call_refused(desk, "GET", f"{path}?{query}", headers)).refusal == PARAMS
    body = good_body("confirm", offer)
    answer = await call_refused(
        desk, "POST", f"{side}/confirm?{query}", desk.rest.wallet, body=body
    )
    assert answer.refusal == PARAMS
    assert (await desk.rest.status(offer.payment_id))["status"] == "requires_action"


async def test_unknown_members_parameters_and_headers_are_ignored(desk, offer):
    order = {**ORDER, "amount": {**USD, "x": 1}, "paymentId": "pay_mine", "status": [], "": {}}
    headers = {**desk.rest.merchant, "X-Unknown": "1", "Operator": "yes"}
    answer = await desk.ask("POST", f"{CREATE}?x=1&x=2&amount.value=5&maxPollMs=x", headers, order)
    assert answer.status == 201
    assert (await desk.rest.detail(answer.body["paymentId"]))["amount"]["value"] == "1250"
    path = f"/v1/gateway/payment/{offer.payment_id}?payment_id=pay_x&paymentId=pay_y&maxPollMs=-1"
    answer = await desk.ask("GET", path, desk.rest.wallet)
    assert answer.body["paymentId"] == offer.payment_id


async def test_the_query_wins_over_the_body(desk, offer):
    path = f"/v1/gateway/payment/{offer.payment_id}/options"
    for query, member, shown in (
        ("", None, False),
        ("", True, True),
        ("?includePaymentInfo=true", False, True),
        ("?includePaymentInfo=false", True, False),
    ):
        body = {"accounts": [], "includePaymentInfo": member, "refresh": "ignored"}
        answer = await desk.ask("POST", path + query, desk.rest.wallet, body)
        assert ("info" in answer.body) is shown
    for query in ("=yes", "=1", "=", "=true&includePaymentInfo=true"):
        answer = await call_refused(
            desk,
            "POST",
            f"{path}?includePaymentInfo{query}",
            desk.rest.wallet,
            body={"accounts": []},
        )
        assert answer.refusal == PARAMS


async def test_the_contents_of_accounts_never_cause_an_error(desk, offer):
    path = f"/v1/gateway/payment/{offer.payment_id}/options"
    noise = [
        "",
        "x",
        "eip155",
        "eip155:31337:",
        "eip155:31337:0x0",
        "☃" * 500,
        "eip155:1:0x" + "0" * 40,
    ]
    noise += ["solana:mainnet:abc", f"eip155:31337:0x{'00' * 20}", offer.wallet.account + " "]
    answer = await desk.ask("POST", path, desk.rest.wallet, {"accounts": [*noise, *noise]})
    assert (answer.status, answer.body["options"]) == (200, [])
    # the first 256 are read, the rest is ignored
    many = ["x"] * 255 + [offer.wallet.account]
    answer = await desk.ask("POST", path, desk.rest.wallet, {"accounts": many})
    assert len(answer.body["options"]) == 1
    answer = await desk.ask("POST", path, desk.rest.wallet, {"accounts": ["x", *many]})
    assert answer.body["options"] == []


# results


@pytest.mark.parametrize(
    "results", [[], [{"type": "walletRpc", "data": []}], [{"type": "walletRpc", "data": []}] * 2]
)
async def test_no_results_are_results_that_do_not_match(desk, results):
    offer = await desk.offer()
    body = {"optionId": offer.option_id, "results": results}
    path = f"/v1/gateway/payment/{offer.payment_id}/confirm"
    answer = await desk.ask("POST", path, desk.rest.wallet, body)
    assert answer.status == 200
    assert answer.body == {"status": "failed", "isFinal": True, "info": None, "failureCode": None}
