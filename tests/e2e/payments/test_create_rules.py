"""Rules for new payments: amounts, times, references and links at their limits.

Refused requests leave no row.
"""

from __future__ import annotations

import grpc
import pytest
import pytest_asyncio
from florin.v1 import merchant_pb2, merchant_pb2_grpc

from tests.support.api import to_api_call_error
from tests.support.service_harness import CREATE, ORDER, PaymentOffer, call_refused, create_payment

VALIDATION = (400, "params_validation")
USD = {"unit": "iso4217/USD", "value": "1250"}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def offer(desk) -> PaymentOffer:
    return await desk.offer()


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
    answer = await call_refused(desk, "POST", CREATE, desk.rest.merchant, body=body)
    assert answer.refusal == VALIDATION
    assert [issue["field"] for issue in answer.body["issues"]] == ["amount.value"]


async def test_the_smallest_and_the_largest_value(desk):
    answer = await call_refused(
        desk, "POST", CREATE, desk.rest.merchant, body={"amount": {**USD, "value": "0"}}
    )
    assert answer.refusal == VALIDATION
    assert answer.body["message"] == "Amount must be at least 1 to cover fees"
    assert answer.body["details"] == {"minAmount": "1", "unit": "iso4217/USD"}
    assert (await create_payment(desk, {"amount": {**USD, "value": "1"}}))["amount"]["value"] == "1"

    for value in ("1" + "0" * 77, str(10**10 + 1)):
        body = {"amount": {**USD, "value": value}}
        answer = await call_refused(desk, "POST", CREATE, desk.rest.merchant, body=body)
        assert answer.refusal == VALIDATION
        assert answer.body["details"] == {"maxAmount": str(10**10), "unit": "iso4217/USD"}
    largest = await create_payment(desk, {"amount": {**USD, "value": str(10**10)}})
    assert largest["amount"]["value"] == str(10**10)


@pytest.mark.parametrize(
    "unit",
    [
        *("USD", "iso4217/", "iso4217/usd", "iso4217/XXX", "iso4217/JPY", "iso4217/USDC"),
        *("iso4217/USD ", "ISO4217/USD", "iso4217/USD/x", "crypto/x", "/", "☃", "x" * 400),
        *("caip19/", "caip19/eip155:1", "caip19/eip155:31337/slip44:61"),
        "caip19/eip155:31337/erc20:0x" + "11" * 20,
        "caip19/eip155:1/erc20:0x1955e4e690c31eb02b611e8ff9a162f4e3b4c9e9",
    ],
)
async def test_a_unit_that_is_not_enabled(desk, unit):
    body = {"amount": {"unit": unit, "value": "100"}}
    answer = await call_refused(desk, "POST", CREATE, desk.rest.merchant, body=body)
    assert answer.refusal == VALIDATION
    assert [issue["field"] for issue in answer.body["issues"]] == ["amount.unit"]


@pytest.mark.parametrize("code", ["USD", "EUR"])
async def test_the_default_currencies(desk, code):
    payment = await create_payment(desk, {"amount": {"unit": f"iso4217/{code}", "value": "5"}})
    assert payment["amount"]["display"]["assetSymbol"] == code
    assert payment["amount"]["display"]["decimals"] == 2


async def test_amount_in_a_token_offers_only_that_token(desk):
    """Only that asset is offered, and its amount is the payment's."""
    asset = f"caip19/{desk.env['FLORIN_EVM_ASSET']}"
    before, _, address = asset.rpartition("0x")
    for unit in (asset, f"{before}0x{address.upper()}"):
        payment = await create_payment(desk, {"amount": {"unit": unit, "value": "7"}})
        assert payment["amount"]["unit"] == asset
        assert payment["amount"]["display"]["networkName"] == "Florin Devnet"
    offered = await desk.offer(amount={"unit": asset, "value": "7"})
    assert offered.option["amount"]["unit"] == asset
    assert offered.option["amount"]["value"] == "7"
    zero = {"amount": {"unit": asset, "value": "0"}}
    answer = await call_refused(desk, "POST", CREATE, desk.rest.merchant, body=zero)
    assert answer.body["details"]["minAmount"] == "1"


async def test_an_amount_that_no_account_could_hold(desk, offer):
    asset = f"caip19/{desk.env['FLORIN_EVM_ASSET']}"
    most = str(2**256 - 1)
    payment = await create_payment(desk, {"amount": {"unit": asset, "value": most}})
    assert payment["amount"]["value"] == most
    answer = await desk.rest.options(payment["paymentId"], [offer.wallet.account])
    assert answer["options"] == []
    for value in (str(2**256), "9" * 78):
        body = {"amount": {"unit": asset, "value": value}}
        refusal = await call_refused(desk, "POST", CREATE, desk.rest.merchant, body=body)
        assert refusal.refusal == VALIDATION
        assert refusal.body["details"] == {"maxAmount": most, "unit": asset}


# times


async def test_the_bounds_of_expires_at(desk):
    now, most = desk.now, 30 * 86400
    for refused_at in (now, now - 1, 0, -1, -(2**63), now + most + 1, 2**63 - 1, now * 1000):
        body = {**ORDER, "expiresAt": refused_at}
        answer = await call_refused(desk, "POST", CREATE, desk.rest.merchant, body=body)
        assert answer.refusal == VALIDATION, refused_at
        assert [issue["field"] for issue in answer.body["issues"]] == ["expiresAt"]
    for good in (now + 1, now + most):
        assert (await create_payment(desk, {**ORDER, "expiresAt": good}))["expiresAt"] == good
    for absent in (ORDER, {**ORDER, "expiresAt": None}):
        assert (await create_payment(desk, absent))["expiresAt"] == now + 900


# references


@pytest.mark.parametrize(
    "reference", ["", "x" * 256, "a\nb", "a\tb", "\x7f", "\x1f", "a\rb", "\x9b", "\u202e"]
)
async def test_a_reference_of_the_wrong_form(desk, reference):
    body = {"amount": USD, "referenceId": reference}
    answer = await call_refused(desk, "POST", CREATE, desk.rest.merchant, body=body)
    assert answer.refusal == VALIDATION
    assert [issue["field"] for issue in answer.body["issues"]] == ["referenceId"]


@pytest.mark.parametrize(
    "reference",
    ["x", " ", "x" * 255, "😀" * 255, " padded ", "<b>&amp;</b>", "e\u0301", "\u200f", "'--"],
)
async def test_reference_id_is_stored_verbatim(desk, reference):
    assert (await create_payment(desk, {"amount": USD, "referenceId": reference}))[
        "referenceId"
    ] == reference


async def test_no_reference_at_all(desk):
    for body in ({"amount": USD}, {"amount": USD, "referenceId": None}):
        assert (await create_payment(desk, body))["referenceId"] == ""


# the buyer's return address

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
    assert (await create_payment(desk, {"amount": USD, "checkout": checkout}))["checkout"] is None


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
async def test_valid_checkout_urls_are_stored_verbatim(desk, url):
    checkout = {"successUrl": url, "errorUrl": GOOD}
    assert (await create_payment(desk, {"amount": USD, "checkout": checkout}))[
        "checkout"
    ] == checkout


async def test_links_beyond_ascii_are_converted(desk):
    checkout = {"successUrl": "https://bücher.example/danke?für=dich", "errorUrl": GOOD}
    body = {"amount": USD, "checkout": checkout}
    created = await desk.rest.call("POST", CREATE, desk.rest.merchant, body)
    assert "checkoutProblem" not in created
    assert (await create_payment(desk, {"amount": USD, "checkout": checkout}))["checkout"] == {
        "successUrl": "https://xn--bcher-kva.example/danke?f%C3%BCr=dich",
        "errorUrl": GOOD,
    }


@pytest.mark.parametrize(
    ("checkout", "problem"),
    [
        (None, None),
        ({}, None),
        ({"successUrl": GOOD}, "errorUrl must be an absolute https URL"),
        ({"successUrl": "https://a b/", "errorUrl": GOOD}, "successUrl must be"),
        ({"successUrl": "https://\u202eü.example/", "errorUrl": GOOD}, "successUrl has a host"),
    ],
)
async def test_a_redirect_that_is_off_has_its_reason(desk, checkout, problem):
    body = {"amount": USD, "checkout": checkout}
    created = await desk.rest.call("POST", CREATE, desk.rest.merchant, body)
    if problem is None:
        assert "checkoutProblem" not in created
    else:
        assert created["checkoutProblem"].startswith(f"the redirect is off: {problem}")


# the same bounds over gRPC


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
    error = to_api_call_error(caught.value)
    assert (error.http, error.code) == VALIDATION
    assert [issue["field"] for issue in error.issues] == [field]
    assert desk.rows() == before
