"""Requests refused before any rule of business; amounts, times and links at their edges.

Whatever is refused leaves no row behind.
"""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
import pytest_asyncio
from florin.v1 import merchant_pb2, merchant_pb2_grpc

from tests.support.api import refused as told
from tests.support.desk import ORDER, Answer, Desk, Offer

CREATE = "/v1/payments"
VALIDATION = (400, "params_validation")
PARAMS = (400, "invalid_params")
USD = {"unit": "iso4217/USD", "value": "1250"}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def offer(desk) -> Offer:
    return await desk.offer()


async def refused(desk: Desk, method: str, path: str, headers: Any, **sent: Any) -> Answer:
    """A refusal that left nothing behind."""
    before = desk.rows()
    answer = await desk.ask(method, path, headers, **sent)
    assert answer.status >= 400, answer.text
    assert desk.rows() == before
    assert set(answer.body) <= {"code", "message", "issues", "details", "requestId"}
    assert answer.body["message"]
    return answer


async def created(desk: Desk, body: Any) -> dict[str, Any]:
    """The detail of a payment that could be created."""
    answer = await desk.ask("POST", CREATE, desk.rest.merchant, body)
    assert answer.status == 201, answer.text
    return await desk.rest.detail(answer.body["paymentId"])


def path_of(call: str, offer: Offer) -> str:
    return CREATE if call == "create" else f"/v1/gateway/payment/{offer.payment_id}/{call}"


def headers_of(desk: Desk, call: str) -> dict[str, str]:
    return desk.rest.merchant if call == "create" else desk.rest.wallet


def good_body(call: str, offer: Offer) -> dict[str, Any]:
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
async def test_what_is_not_a_strict_json_object(desk, offer, call):
    for why, body in NOT_JSON.items():
        answer = await refused(
            desk, "POST", path_of(call, offer), headers_of(desk, call), data=body
        )
        assert answer.told == VALIDATION, why


@pytest.mark.parametrize("call", CALLS)
async def test_an_empty_body_is_an_empty_object(desk, offer, call):
    path, headers = path_of(call, offer), headers_of(desk, call)
    for body in (b"", b"{}", b"null"):
        answer = await refused(desk, "POST", path, headers, data=body)
        assert answer.told == VALIDATION
        assert answer.body["issues"], answer.text


@pytest.mark.parametrize("call", CALLS)
async def test_duplicates_of_known_members(desk, offer, call):
    body = json.dumps(good_body(call, offer))
    name = next(iter(good_body(call, offer)))
    twice = body[:-1] + f', "{name}": ' + json.dumps(good_body(call, offer)[name]) + "}"
    answer = await refused(desk, "POST", path_of(call, offer), headers_of(desk, call), data=twice)
    assert answer.told == VALIDATION


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
        answer = await refused(desk, "POST", path, headers, body=body)
        assert answer.told == VALIDATION, (field, why, answer.text)
        assert field in [issue["field"] for issue in answer.body["issues"]], (why, answer.text)
        assert all(issue["message"] for issue in answer.body["issues"])
    assert (await desk.rest.status(offer.payment_id))["status"] == "requires_action"


async def test_every_fault_of_a_body_is_told_at_once(desk):
    body = {"amount": {"unit": 1}, "referenceId": 2, "expiresAt": "3"}
    answer = await refused(desk, "POST", CREATE, desk.rest.merchant, body=body)
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
    side, one = f"/v1/gateway/payment/{offer.payment_id}", f"/v1/payments/{offer.payment_id}"
    also = f"/v1/merchant/payment/{offer.payment_id}"
    for path, headers in (
        (f"{side}/status", desk.rest.wallet),
        (f"{one}/status", desk.rest.merchant),
        (f"{also}/status", desk.rest.merchant),
    ):
        assert (await refused(desk, "GET", f"{path}?{query}", headers)).told == PARAMS
    body = good_body("confirm", offer)
    answer = await refused(desk, "POST", f"{side}/confirm?{query}", desk.rest.wallet, body=body)
    assert answer.told == PARAMS
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
        answer = await refused(
            desk,
            "POST",
            f"{path}?includePaymentInfo{query}",
            desk.rest.wallet,
            body={"accounts": []},
        )
        assert answer.told == PARAMS


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
    # 256 are read, the rest is not looked at
    many = ["x"] * 255 + [offer.wallet.account]
    answer = await desk.ask("POST", path, desk.rest.wallet, {"accounts": many})
    assert len(answer.body["options"]) == 1
    answer = await desk.ask("POST", path, desk.rest.wallet, {"accounts": ["x", *many]})
    assert answer.body["options"] == []


# amounts


@pytest.mark.parametrize(
    "value",
    [
        *("", "00", "01", "007", "-1", "+1", "1.0", "1e3", "0x1", " 1", "1 ", "1\n", "one"),
        "١",
        "1" * 79,
        "9" * 1000,
    ],
)
async def test_a_value_of_the_wrong_form(desk, value):
    body = {"amount": {**USD, "value": value}}
    answer = await refused(desk, "POST", CREATE, desk.rest.merchant, body=body)
    assert answer.told == VALIDATION
    assert [issue["field"] for issue in answer.body["issues"]] == ["amount.value"]


async def test_the_smallest_and_the_largest_value(desk):
    answer = await refused(
        desk, "POST", CREATE, desk.rest.merchant, body={"amount": {**USD, "value": "0"}}
    )
    assert answer.told == VALIDATION
    assert answer.body["message"] == "Amount must be at least 1 to cover fees"
    assert answer.body["details"] == {"minAmount": "1", "unit": "iso4217/USD"}
    assert (await created(desk, {"amount": {**USD, "value": "1"}}))["amount"]["value"] == "1"

    for value in ("1" + "0" * 77, str(10**10 + 1)):
        body = {"amount": {**USD, "value": value}}
        answer = await refused(desk, "POST", CREATE, desk.rest.merchant, body=body)
        assert answer.told == VALIDATION
        assert answer.body["details"] == {"maxAmount": str(10**10), "unit": "iso4217/USD"}
    largest = await created(desk, {"amount": {**USD, "value": str(10**10)}})
    assert largest["amount"]["value"] == str(10**10)


@pytest.mark.parametrize(
    "unit",
    [
        *("USD", "iso4217/", "iso4217/usd", "iso4217/XXX", "iso4217/JPY", "iso4217/USDC"),
        *("iso4217/USD ", "ISO4217/USD", "iso4217/USD/x", "crypto/x", "/", "☃", "x" * 400),
        *("caip19/", "caip19/eip155:1", "caip19/eip155:31337/slip44:60"),
        "caip19/eip155:31337/erc20:0x" + "11" * 20,
        "caip19/eip155:1/erc20:0x1955e4e690c31eb02b611e8ff9a162f4e3b4c9e9",
    ],
)
async def test_a_unit_that_is_not_enabled(desk, unit):
    body = {"amount": {"unit": unit, "value": "100"}}
    answer = await refused(desk, "POST", CREATE, desk.rest.merchant, body=body)
    assert answer.told == VALIDATION
    assert [issue["field"] for issue in answer.body["issues"]] == ["amount.unit"]


@pytest.mark.parametrize("code", ["USD", "EUR", "GBP"])
async def test_the_default_currencies(desk, code):
    made = await created(desk, {"amount": {"unit": f"iso4217/{code}", "value": "5"}})
    assert made["amount"]["display"]["assetSymbol"] == code
    assert made["amount"]["display"]["decimals"] == 2


async def test_an_amount_of_one_token(desk):
    """Only that asset is offered, and its amount is the payment's."""
    asset = f"caip19/{desk.env['FLORIN_EVM_ASSET']}"
    before, _, address = asset.rpartition("0x")
    for unit in (asset, f"{before}0x{address.upper()}"):
        made = await created(desk, {"amount": {"unit": unit, "value": "7"}})
        assert made["amount"]["unit"] == asset
        assert made["amount"]["display"]["networkName"] == "Florin Devnet"
    offered = await desk.offer(amount={"unit": asset, "value": "7"})
    assert offered.option["amount"]["unit"] == asset
    assert offered.option["amount"]["value"] == "7"
    zero = {"amount": {"unit": asset, "value": "0"}}
    answer = await refused(desk, "POST", CREATE, desk.rest.merchant, body=zero)
    assert answer.body["details"]["minAmount"] == "1"


async def test_an_amount_that_no_account_could_hold(desk, offer):
    asset = f"caip19/{desk.env['FLORIN_EVM_ASSET']}"
    most = str(2**256 - 1)
    made = await created(desk, {"amount": {"unit": asset, "value": most}})
    assert made["amount"]["value"] == most
    answer = await desk.rest.options(made["paymentId"], [offer.wallet.account])
    assert answer["options"] == []
    for value in (str(2**256), "9" * 78):
        body = {"amount": {"unit": asset, "value": value}}
        refusal = await refused(desk, "POST", CREATE, desk.rest.merchant, body=body)
        assert refusal.told == VALIDATION
        assert refusal.body["details"] == {"maxAmount": most, "unit": asset}


# times


async def test_the_bounds_of_expires_at(desk):
    now, most = desk.now, 30 * 86400
    for refused_at in (now, now - 1, 0, -1, -(2**63), now + most + 1, 2**63 - 1, now * 1000):
        body = {**ORDER, "expiresAt": refused_at}
        answer = await refused(desk, "POST", CREATE, desk.rest.merchant, body=body)
        assert answer.told == VALIDATION, refused_at
        assert [issue["field"] for issue in answer.body["issues"]] == ["expiresAt"]
    for good in (now + 1, now + most):
        assert (await created(desk, {**ORDER, "expiresAt": good}))["expiresAt"] == good
    for absent in (ORDER, {**ORDER, "expiresAt": None}):
        assert (await created(desk, absent))["expiresAt"] == now + 900


# references


@pytest.mark.parametrize("reference", ["", "x" * 256, "a\nb", "a\tb", "\x7f", "\x1f", "a\rb"])
async def test_a_reference_of_the_wrong_form(desk, reference):
    body = {"amount": USD, "referenceId": reference}
    answer = await refused(desk, "POST", CREATE, desk.rest.merchant, body=body)
    assert answer.told == VALIDATION
    assert [issue["field"] for issue in answer.body["issues"]] == ["referenceId"]


@pytest.mark.parametrize(
    "reference",
    ["x", " ", "x" * 255, "😀" * 255, " padded ", "<b>&amp;</b>", "e\u0301", "\u202e", "'--"],
)
async def test_a_reference_is_kept_verbatim(desk, reference):
    assert (await created(desk, {"amount": USD, "referenceId": reference}))[
        "referenceId"
    ] == reference


async def test_no_reference_at_all(desk):
    for body in ({"amount": USD}, {"amount": USD, "referenceId": None}):
        assert (await created(desk, body))["referenceId"] == ""


# where the buyer goes afterwards

GOOD = "https://shop.example/done"


@pytest.mark.parametrize(
    "checkout",
    [
        None,
        {},
        [],
        "https://shop.example",
        7,
        {"successUrl": GOOD},
        {"errorUrl": GOOD},
        {"successUrl": GOOD, "errorUrl": None},
        {"successUrl": GOOD, "errorUrl": 7},
        {"successUrl": GOOD, "errorUrl": {}},
        *(
            {"successUrl": GOOD, "errorUrl": url}
            for url in (
                "",
                "http://shop.example/",
                "shop.example/done",
                "/done",
                "//shop.example/done",
                "https://",
                "https:///done",
                "https:shop.example",
                "javascript:alert(1)",
                "https://user@shop.example/",
                "https://user:secret@shop.example/",
                "https://@shop.example/",
                "https://shop.example/a b",
                "https://shop.example/\n",
                "https://shop.example/\x7f",
                "https://shop.example\\@evil.example/",
                "https://shop.example:port/",
                "https://shop.example:99999/",
                "https://[::1/",
                "https://shop.example/" + "x" * 2048,
            )
        ),
    ],
)
async def test_half_or_invalid_links_turn_the_redirect_off(desk, checkout):
    assert (await created(desk, {"amount": USD, "checkout": checkout}))["checkout"] is None


@pytest.mark.parametrize(
    "url",
    [
        GOOD,
        "https://shop.example",
        "https://shop.example:8443/a?b=c&d=%20#e",
        "https://xn--caf-dma.example/",
        "https://[2001:db8::1]/x",
        "HTTPS://SHOP.EXAMPLE/",
        "https://shop.example/" + "x" * (2048 - len("https://shop.example/")),
    ],
)
async def test_two_valid_links_are_kept_as_they_are(desk, url):
    checkout = {"successUrl": url, "errorUrl": GOOD}
    assert (await created(desk, {"amount": USD, "checkout": checkout}))["checkout"] == checkout


# results, and the same bounds over gRPC


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


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (merchant_pb2.CreatePaymentRequest(), "amount"),
        (merchant_pb2.CreatePaymentRequest(amount={"unit": "iso4217/USD"}), "amount.value"),
        (merchant_pb2.CreatePaymentRequest(amount={**USD, "value": "01"}), "amount.value"),
        (merchant_pb2.CreatePaymentRequest(amount={**USD, "value": "0"}), "amount.value"),
        (merchant_pb2.CreatePaymentRequest(amount={**USD, "unit": "x"}), "amount.unit"),
        (merchant_pb2.CreatePaymentRequest(amount=USD, reference_id=""), "referenceId"),
        (merchant_pb2.CreatePaymentRequest(amount=USD, reference_id="a\0b"), "referenceId"),
        (merchant_pb2.CreatePaymentRequest(amount=USD, expires_at=0), "expiresAt"),
        (merchant_pb2.CreatePaymentRequest(amount=USD, expires_at=2**62), "expiresAt"),
    ],
)
async def test_grpc_is_held_to_the_same_bounds(desk, request_, field):
    before = desk.rows()
    stub = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.CreatePayment(request_, metadata=desk.grpc.merchant, timeout=10)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    error = told(caught.value)
    assert (error.http, error.code) == VALIDATION
    assert [issue["field"] for issue in error.issues] == [field]
    assert desk.rows() == before
