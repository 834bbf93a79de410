"""Rules for new payments: amounts, times, references and links at their limits.

Refused requests leave no row.
"""

from __future__ import annotations

import grpc
import pytest
import pytest_asyncio
from florin.v1 import merchant_pb2, merchant_pb2_grpc

from tests.support.api import to_api_call_error
from tests.support.desk import (
    CREATE,
    DEPLOYED,
    ORDER,
    SPEC,
    PaymentOffer,
    call_refused,
    create_payment,
)

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


# the order: description, lines and metadata

LINES = [
    {"name": "Flat white", "quantity": 2, "amount": "900"},
    {"name": "Croissant <b>& co</b>", "quantity": 1, "amount": "350"},
]
ORDERED = {
    "description": "Breakfast at table 7 <script>alert(1)</script>",
    "lines": LINES,
    "metadata": {"order": "1001", "till": "", "名": "🍵 x=y"},
}


@pytest.mark.parametrize("headers", [SPEC, DEPLOYED], ids=["spec", "deployed"])
@pytest.mark.parametrize("path", [CREATE, "/v1/merchant/payment"])
async def test_order_is_returned_to_the_merchant_as_written(desk, path, headers):
    merchant = {**desk.rest.merchant, **headers}
    created = await desk.rest.call("POST", path, merchant, {"amount": USD, **ORDERED})
    detail = await desk.rest.call("GET", f"{CREATE}/{created['paymentId']}", merchant)
    assert {name: detail[name] for name in ORDERED} == ORDERED
    # maps have no order of their own: the answer is sorted
    assert list(detail["metadata"]) == sorted(ORDERED["metadata"])
    for path_of_list in ("/v1/payments?limit=200", "/v1/merchants/payments?limit=200"):
        rows = (await desk.rest.call("GET", path_of_list, merchant))["data"]
        (row,) = [row for row in rows if row["paymentId"] == created["paymentId"]]
        assert row["description"] == ORDERED["description"]
        assert row["metadata"] == ORDERED["metadata"]


async def test_quantity_is_one_unless_given(desk):
    detail = await create_payment(
        desk, {"amount": USD, "lines": [{"name": "Tea", "amount": "1250"}]}
    )
    assert detail["lines"] == [{"name": "Tea", "quantity": 1, "amount": "1250"}]
    assert not {"description", "metadata"} & set(detail)


BUYER_PAGES = ("", "/state", "/receipt")


async def test_wallets_buyers_and_receipts_never_get_metadata_or_reference(desk):
    secret = "s3cret-margin"
    offer = await desk.offer(
        description="Breakfast", lines=LINES, metadata={secret: secret}, referenceId=secret + "-ref"
    )
    side = f"/v1/gateway/payment/{offer.payment_id}"
    seen = []
    for paid in (False, True):
        if paid:
            await desk.confirm(offer)
            assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
            receipt = f"{CREATE}/{offer.payment_id}/receipt"
            seen.append(await desk.ask("GET", receipt, desk.rest.merchant))
        seen.append(await desk.ask("GET", side, desk.rest.wallet))
        seen.append(await desk.ask("GET", f"{side}/status", desk.rest.wallet))
        options = {"accounts": [offer.wallet.account], "includePaymentInfo": True}
        seen.append(await desk.ask("POST", f"{side}/options", desk.rest.wallet, options))
        pages = [await desk.ask("GET", f"/{offer.payment_id}{page}") for page in BUYER_PAGES]
        seen += pages
    assert [answer.status for answer in seen if answer.status != 404] == [200] * (len(seen) - 1)
    assert not [answer.text for answer in seen if secret in answer.text]


LINE = {"name": "Tea", "quantity": 1, "amount": "1250"}


@pytest.mark.parametrize(
    ("members", "field", "reason"),
    [
        ({"lines": [{**LINE, "amount": "1100"}]}, "lines", "add up to 11.00 USD, but amount is 12"),
        ({"lines": [LINE, LINE]}, "lines", "add up to 25.00 USD, but amount is 12.50 USD"),
        ({"lines": [{**LINE, "amount": "1" + "0" * 77}]}, "lines", "add up to 1000000000"),
        ({"lines": [{**LINE, "amount": "-1250"}]}, "lines[0].amount", "minor units"),
        ({"lines": [{**LINE, "amount": "12.50"}]}, "lines[0].amount", "minor units"),
        ({"lines": [{**LINE, "amount": 1250}]}, "lines[0].amount", "must be a string"),
        ({"lines": [{**LINE, "quantity": 0}]}, "lines[0].quantity", "at least 1"),
        ({"lines": [{**LINE, "quantity": -1}]}, "lines[0].quantity", "at least 1"),
        ({"lines": [{**LINE, "quantity": 10**6 + 1}]}, "lines[0].quantity", "at most 1000000"),
        ({"lines": [{**LINE, "quantity": 10**30}]}, "lines[0].quantity", "must be an integer"),
        ({"lines": [{**LINE, "quantity": 1.5}]}, "lines[0].quantity", "must be an integer"),
        ({"lines": [{"quantity": 1, "amount": "1250"}]}, "lines[0].name", "is required"),
        ({"lines": [{**LINE, "name": ""}]}, "lines[0].name", "is required"),
        ({"lines": [{**LINE, "name": "\u3164"}]}, "lines[0].name", "a visible character"),
        ({"lines": [{**LINE, "name": "a\u202eb"}]}, "lines[0].name", "control characters"),
        ({"lines": [{**LINE, "name": "x" * 201}]}, "lines[0].name", "at most 200 characters"),
        ({"lines": [LINE] * 10_000}, "lines", "must have at most 50 items"),
        ({"lines": LINE}, "lines", "must be an array"),
        ({"description": ""}, "description", "at least 1 character"),
        ({"description": " \u2800 "}, "description", "a visible character"),
        ({"description": "two\nlines"}, "description", "control characters"),
        ({"description": "\u2066hidden"}, "description", "control characters"),
        ({"description": "x" * 501}, "description", "at most 500 characters"),
        ({"metadata": {"": "x"}}, "metadata", "a key must have at least 1 character"),
        ({"metadata": {"k" * 41: "x"}}, "metadata", "a key must have at most 40 characters"),
        ({"metadata": {"a\u202eb": "x"}}, "metadata", "a key has control characters"),
        ({"metadata": {"k": "a\x1bb"}}, "metadata.k", "control characters"),
        ({"metadata": {"k": "x" * 501}}, "metadata.k", "at most 500 characters"),
        ({"metadata": {"k": 1}}, "metadata.k", "must be a string"),
        ({"metadata": {"k": None}}, "metadata.k", "must be a string"),
        ({"metadata": {"k": {"deep": "x"}}}, "metadata.k", "must be a string"),
        ({"metadata": [["k", "x"]]}, "metadata", "must be an object"),
        ({"metadata": {f"k{n}": "x" for n in range(21)}}, "metadata", "at most 20 items"),
        ({"metadata": {f"k{n}": "🍵" * 400 for n in range(20)}}, "metadata", "is too large"),
    ],
)
async def test_order_of_the_wrong_form_is_refused_with_its_place(desk, members, field, reason):
    body = {"amount": USD, **members}
    answer = await call_refused(desk, "POST", CREATE, desk.rest.merchant, body=body)
    assert answer.refusal == VALIDATION
    (issue,) = answer.body["issues"]
    assert issue["field"] == field
    assert reason in issue["message"]
    # errors of 10,000 lines stay small
    assert len(answer.text) < 1000


async def test_key_that_is_given_twice_is_refused(desk):
    data = b'{"amount":{"unit":"iso4217/USD","value":"1250"},"metadata":{"a":"1","a":"2"}}'
    answer = await desk.ask("POST", CREATE, desk.rest.merchant, data=data)
    assert answer.refusal == VALIDATION
    assert "contains a member twice" in answer.body["message"]


async def test_lines_in_a_token_add_up_to_its_minor_units(desk):
    unit = f"caip19/{desk.env['FLORIN_EVM_ASSET']}"
    body = {
        "amount": {"unit": unit, "value": "7000000"},
        "lines": [{"name": "Tea", "amount": "7000001"}],
    }
    answer = await call_refused(desk, "POST", CREATE, desk.rest.merchant, body=body)
    assert "add up to 7.000001 " in answer.body["message"]
    body["lines"][0]["amount"] = "7000000"
    assert (await create_payment(desk, body))["lines"][0]["amount"] == "7000000"


# unknown members


async def test_ignored_members_are_reported_to_test_keys_only(desk):
    body = {
        "amount": {**USD, "currency": "USD"},
        "refrenceId": "x",
        "checkout": {"successURL": "x"},
        "lines": [{**LINE, "sku\r\nX-Evil: 1": 1}],
        "metadata": {"any": "key"},
    }
    answer = await desk.ask("POST", CREATE, desk.rest.merchant, body)
    assert answer.status == 201
    assert answer.headers["Florin-Ignored"] == (
        "refrenceId, amount.currency, checkout.successURL, lines[0].sku??X-Evil??1"
    )
    # also where the misspelled member is the reason
    answer = await desk.ask("POST", CREATE, desk.rest.merchant, {"amounts": USD})
    assert answer.refusal == VALIDATION
    assert answer.headers["Florin-Ignored"] == "amounts"
    live = await desk.tenant(live=True)
    answer = await desk.ask("POST", CREATE, live.headers, body)
    assert answer.status == 201
    assert "Florin-Ignored" not in answer.headers
    assert "Florin-Ignored" not in (await desk.ask("POST", CREATE, {}, body)).headers


async def test_list_of_ignored_members_is_short(desk):
    body = {"amount": USD, **{"x" * 100 + str(n): n for n in range(1000)}}
    names = (await desk.ask("POST", CREATE, desk.rest.merchant, body)).headers["Florin-Ignored"]
    assert names.split(", ") == [*["x" * 64] * 10, "..."]


async def test_unknown_member_of_a_refund_is_refused(desk):
    body = {"paymentId": "pay_1", "amounts": USD}
    answer = await call_refused(desk, "POST", "/v1/refunds", desk.rest.merchant, body=body)
    assert answer.refusal == VALIDATION
    assert answer.body["issues"] == [{"field": "amounts", "message": "is unknown"}]
    assert "Florin-Ignored" not in answer.headers


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
        (merchant_pb2.CreatePaymentRequest(amount=USD, metadata={"k" * 41: "x"}), "metadata"),
        (merchant_pb2.CreatePaymentRequest(amount=USD, metadata={"k": "\u202e"}), "metadata.k"),
        (merchant_pb2.CreatePaymentRequest(amount=USD, lines=[{"name": "a"}]), "lines[0].amount"),
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
