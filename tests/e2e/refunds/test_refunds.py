"""A merchant refunds a payment: all of it or parts, and never more than was paid."""

from __future__ import annotations

import asyncio
import re

import pytest
from florin.v1 import merchant_pb2_grpc, refund_pb2

from tests.support.api import ApiCallError, RestApi
from tests.support.payment_flow import ORDER, PRICE, follow_payment
from tests.support.service_harness import DEPLOYED, SPEC

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNKNOWN = {"spec": (404, "payment_not_found"), "deployed": (404, "not_found")}
PROFILES = {"spec": SPEC, "no header": {}, "deployed": DEPLOYED}


@pytest.fixture(params=["rest", "grpc"])
def side(request, desk):
    return getattr(desk, request.param)


async def paid(api, wallet=None) -> str:
    """Return a payment whose money really moved."""
    payment_id = (await api.create(ORDER))["paymentId"]
    (option,) = (await api.options(payment_id, [wallet.account]))["options"]
    await api.confirm(payment_id, option["id"], wallet.execute_all(option))
    assert (await asyncio.wait_for(follow_payment(api, payment_id), 20))[-1][
        "status"
    ] == "succeeded"
    return payment_id


async def simulated(api) -> str:
    payment_id = (await api.create(ORDER))["paymentId"]
    await api.simulate(payment_id, "succeeded")
    return payment_id


async def refusal(call) -> tuple[int, str]:
    with pytest.raises(ApiCallError) as caught:
        await call
    return caught.value.http, caught.value.code


async def test_a_refund_is_paid_out(desk, side, wallet):
    payment_id = await paid(side, wallet)
    held = await desk.chain.balance(wallet.address)
    assert (await side.detail(payment_id))["refund"] is None
    before = await side.detail(payment_id)
    answer = await side.refund(payment_id)
    assert answer == {
        "paymentId": payment_id,
        "refundId": answer["refundId"],
        "status": "pending",
        "amount": before["info"]["optionAmount"],
        "paymentAmount": before["amount"],
    }
    assert re.fullmatch(r"rfnd_[A-Za-z0-9]{17}", answer["refundId"])
    refund = await desk.wait_refunded(payment_id)
    detail = await side.detail(payment_id)
    assert detail["refund"] == refund
    members = {"refundId", "status", "amount", "paymentAmount", "txId", "createdAt", "completedAt"}
    assert set(refund) == members
    assert (refund["refundId"], refund["status"]) == (answer["refundId"], "succeeded")
    assert refund["amount"] == before["info"]["optionAmount"]
    assert refund["amount"]["value"] == str(PRICE)
    assert await desk.chain.balance(wallet.address) == held + PRICE
    # the payment itself is unchanged
    assert detail.pop("refunds") == [refund]
    assert detail.pop("refunded")["refundable"]["value"] == "0"
    assert {**detail, "refund": None, "refunds": []} == before


async def test_a_simulated_payment_has_no_money_to_go_back(desk, side):
    payment_id = await simulated(side)
    answer = await side.refund(payment_id)
    refund_id = answer["refundId"]
    result = {"refundId": refund_id, "status": "succeeded", "txId": f"test:{refund_id}"}
    amounts = {"amount": answer.pop("amount"), "paymentAmount": answer.pop("paymentAmount")}
    assert amounts["paymentAmount"] == (await side.detail(payment_id))["amount"]
    assert answer == {"paymentId": payment_id, **result}
    refund = (await side.detail(payment_id))["refund"]
    assert {key: refund[key] for key in result} == result
    assert refund["completedAt"] == refund["createdAt"]
    assert desk.select("SELECT count(*) FROM payout WHERE id = ?", refund_id) == [(0,)]


async def test_refund_is_paid_to_the_payer(desk, wallet):
    payment_id = await paid(desk.rest, wallet)
    await desk.rest.refund(payment_id)
    stored = desk.select("SELECT account, unit, value FROM refund WHERE payment_id = ?", payment_id)
    unit = (await desk.rest.detail(payment_id))["info"]["optionAmount"]["unit"]
    assert stored == [(wallet.account.lower(), unit, str(PRICE))]


async def test_a_payment_is_refunded_once(side):
    payment_id = await simulated(side)
    first = await side.refund(payment_id)
    assert await refusal(side.refund(payment_id)) == (409, "already_refunded")
    assert await refusal(side.refund(payment_id, key=payment_id)) == (409, "already_refunded")
    assert (await side.detail(payment_id))["refund"]["refundId"] == first["refundId"]


async def test_concurrent_full_refunds_have_a_single_winner(desk):
    payment_id = await simulated(desk.rest)
    sides = [desk.rest, desk.grpc] * 10
    results = await asyncio.gather(*(s.refund(payment_id) for s in sides), return_exceptions=True)
    (done,) = [item for item in results if not isinstance(item, ApiCallError)]
    assert {(e.http, e.code) for e in results if isinstance(e, ApiCallError)} == {
        (409, "already_refunded")
    }
    assert (await desk.rest.detail(payment_id))["refund"]["refundId"] == done["refundId"]


async def test_retried_refund_returns_its_first_result(desk, side):
    payment_id = await simulated(side)
    first = await side.refund(payment_id, key=f"back-{payment_id}")
    # over both protocols: the key identifies the request, not the protocol
    for other in (side, desk.rest, desk.grpc):
        assert await other.refund(payment_id, key=f"back-{payment_id}") == first
    path, body = "/v1/refunds", {"paymentId": payment_id}
    headers = {**desk.rest.merchant, "Idempotency-Key": f"back-{payment_id}"}
    answer = await desk.ask("POST", path, headers, body)
    assert (answer.status, answer.headers["Idempotent-Replayed"]) == (200, "true")
    another = {"paymentId": await simulated(side)}
    assert (await desk.ask("POST", path, headers, another)).refusal == (409, "idempotency_conflict")


async def test_a_refused_refund_leaves_its_key_unused(side):
    payment_id = (await side.create(ORDER))["paymentId"]
    key = f"early-{payment_id}"
    assert await refusal(side.refund(payment_id, key=key)) == (400, "payment_not_succeeded")
    await side.simulate(payment_id, "succeeded")
    assert (await side.refund(payment_id, key=key))["status"] == "succeeded"


@pytest.mark.parametrize("outcome", [None, "stall", "failed", "expired", "cancelled"])
async def test_only_a_succeeded_payment_is_refunded(side, outcome):
    payment_id = (await side.create(ORDER))["paymentId"]
    if outcome:
        await side.simulate(payment_id, outcome)
    assert await refusal(side.refund(payment_id)) == (400, "payment_not_succeeded")
    assert (await side.detail(payment_id))["refund"] is None


@pytest.mark.parametrize("profile", PROFILES)
async def test_foreign_payment_is_unknown_for_refunds(desk, profile):
    own = await simulated(desk.rest)
    tenant, live = await desk.tenant(), await desk.tenant(live=True)
    result = UNKNOWN.get(profile, UNKNOWN["spec"])
    for headers in (tenant.headers, live.headers):
        answer = await desk.ask(
            "POST", "/v1/refunds", {**headers, **PROFILES[profile]}, {"paymentId": own}
        )
        assert answer.refusal == result
        assert "not found" in answer.body["message"]
    headers = {**desk.rest.merchant, **PROFILES[profile]}
    answer = await desk.ask("POST", "/v1/refunds", headers, {"paymentId": "pay_unknown"})
    assert answer.refusal == result
    assert (await desk.rest.refund(own))["status"] == "succeeded"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"paymentId": None},
        {"paymentId": ""},
        {"paymentId": "x"},
        {"paymentId": "pay_"},
        {"paymentId": "pay_" + "x" * 61},
        {"paymentId": "pay_ä"},
        {"paymentId": 7},
        {"paymentId": "https://pay.florin.example/pay_0"},
    ],
)
async def test_text_that_is_no_payment_id(desk, body):
    answer = await desk.ask("POST", "/v1/refunds", desk.rest.merchant, body)
    assert answer.refusal == (400, "params_validation")
    assert answer.body["issues"][0]["field"] == "paymentId"


async def test_a_deleted_merchant_still_gives_money_back(desk):
    tenant = await desk.tenant()
    api = RestApi(desk.session, desk.rest.base, desk.env)
    api.merchant = tenant.headers
    payment_id = await simulated(api)
    await tenant.change_merchant(deleted_at_us=desk.clock.now_us())
    assert (await api.refund(payment_id))["status"] == "succeeded"
    assert (await api.detail(payment_id))["refund"]["status"] == "succeeded"


async def test_a_key_needs_the_right_to_refund(desk):
    tenant = await desk.tenant()
    _, reader = await desk.key(tenant.partner.id, scopes=("read", "create"))
    headers = {**tenant.headers, "Api-Key": reader}
    answer = await desk.ask("POST", "/v1/refunds", headers, {"paymentId": "pay_0"})
    assert answer.refusal == (403, "forbidden")


# parts of the paid amount


def usd(value: object) -> dict[str, object]:
    return {"unit": "iso4217/USD", "value": str(value)}


async def token_of(api, payment_id: str) -> str:
    return (await api.detail(payment_id))["info"]["optionAmount"]["unit"]


async def rest_of(call) -> dict[str, str]:
    """Return the details of a request that exceeds the remaining amount."""
    with pytest.raises(ApiCallError) as caught:
        await call
    assert (caught.value.http, caught.value.code) == (409, "already_refunded")
    return caught.value.details


async def test_parts_are_paid_out_until_nothing_is_left(desk, side, wallet):
    payment_id = await paid(side, wallet)
    held = await desk.chain.balance(wallet.address)
    unit = await token_of(side, payment_id)
    first = await side.refund(payment_id, amount=usd(500), reason="one cup was broken")
    assert first["amount"]["value"] == "5000000"
    assert first["paymentAmount"]["value"] == "500"
    assert await rest_of(side.refund(payment_id, amount=usd(PRICE // 10_000 - 499))) == {
        "refunded": "5000000",
        "refundable": str(PRICE - 5_000_000),
        "unit": unit,
    }
    second = await side.refund(payment_id, amount={"unit": unit, "value": "1"})
    assert second["paymentAmount"]["value"] == "0"
    last = await side.refund(payment_id, amount={"unit": unit, "value": str(PRICE - 5_000_001)})
    # the last token refund includes what the others rounded off
    assert last["paymentAmount"]["value"] == str(PRICE // 10_000 - 500)
    for amount in ({"unit": unit, "value": "1"}, usd(1), None):
        details = await rest_of(side.refund(payment_id, amount=amount))
        assert (details["refunded"], details["refundable"]) == (str(PRICE), "0")
    await desk.wait_refunded(payment_id, every=True)
    detail = await side.detail(payment_id)
    assert [refund["refundId"] for refund in detail["refunds"]] == [
        item["refundId"] for item in (first, second, last)
    ]
    assert {refund["status"] for refund in detail["refunds"]} == {"succeeded"}
    assert [refund.get("reason") for refund in detail["refunds"]] == [
        "one cup was broken",
        None,
        None,
    ]
    assert detail["refund"] == detail["refunds"][-1]
    assert detail["refunded"]["amount"]["value"] == str(PRICE)
    assert len({refund["txId"] for refund in detail["refunds"]}) == 3
    assert await desk.chain.balance(wallet.address) == held + PRICE


async def test_a_request_without_amount_after_a_part_is_refused_with_the_rest(side):
    payment_id = await simulated(side)
    await side.refund(payment_id, amount=usd(200))
    details = await rest_of(side.refund(payment_id))
    assert details["refunded"] == "2000000"
    assert details["refundable"] == str(PRICE - 2_000_000)


async def test_concurrent_partial_refunds_never_exceed_the_paid_amount(desk):
    payment_id = await simulated(desk.rest)
    unit = await token_of(desk.rest, payment_id)
    share = {"unit": unit, "value": str(PRICE // 3 - 1)}
    calls = [side.refund(payment_id, amount=share) for side in [desk.rest, desk.grpc] * 10]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(not isinstance(item, Exception) for item in results) == 3
    assert {(e.http, e.code) for e in results if isinstance(e, ApiCallError)} == {
        (409, "already_refunded")
    }
    detail = await desk.rest.detail(payment_id)
    assert detail["refunded"]["amount"]["value"] == str(3 * (PRICE // 3 - 1))


async def test_idempotency_key_applies_to_a_single_partial_refund(desk, side):
    payment_id = await simulated(side)
    first = await side.refund(payment_id, key=f"part-{payment_id}", amount=usd(100))
    for other in (desk.rest, desk.grpc):
        again = await other.refund(payment_id, key=f"part-{payment_id}", amount=usd(100))
        assert again == first
    other = side.refund(payment_id, key=f"part-{payment_id}", amount=usd(101))
    assert await refusal(other) == (409, "idempotency_conflict")
    # without a key, or under another one, it is another refund
    await side.refund(payment_id, amount=usd(100))
    await side.refund(payment_id, key=f"more-{payment_id}", amount=usd(100))
    assert len((await side.detail(payment_id))["refunds"]) == 3


@pytest.mark.parametrize(
    ("amount", "field", "message"),
    [
        (usd(0), "amount.value", "minor units above zero"),
        (usd(-1), "amount.value", "minor units above zero"),
        (usd("5.00"), "amount.value", '"1250" for 12.50 USD'),
        (usd("007"), "amount.value", "minor units above zero"),
        (usd("5e2"), "amount.value", "minor units above zero"),
        (usd("١"), "amount.value", "minor units above zero"),
        (usd("1" * 79), "amount.value", "minor units above zero"),
        (
            {"unit": "iso4217/EUR", "value": "1"},
            "amount.unit",
            "iso4217/USD (the currency of the payment)",
        ),
        (
            {"unit": "iso4217/usd", "value": "1"},
            "amount.unit",
            "iso4217/USD (the currency of the payment)",
        ),
        ({"unit": "USD", "value": "1"}, "amount.unit", "iso4217/USD (the currency of the payment)"),
        ({"unit": "caip19/eip155:1/slip44:60", "value": "1"}, "amount.unit", "(the paid asset)"),
    ],
)
async def test_an_amount_that_is_none_moves_nothing(side, amount, field, message):
    payment_id = await simulated(side)
    with pytest.raises(ApiCallError) as caught:
        await side.refund(payment_id, amount=amount)
    assert (caught.value.http, caught.value.code) == (400, "params_validation")
    assert message in caught.value.message
    assert field in caught.value.message
    assert (await side.detail(payment_id))["refunds"] == []


@pytest.mark.parametrize(
    ("member", "field"),
    [
        ({"amount": {}}, "amount.unit"),
        ({"amount": "5"}, "amount"),
        ({"amount": {"unit": "iso4217/USD", "value": 5}}, "amount.value"),
        ({"amount": {"unit": "iso4217/USD", "value": "5", "currency": "EUR"}}, "amount.currency"),
        ({"amuont": {"unit": "iso4217/USD", "value": "5"}}, "amuont"),
        ({"value": "5"}, "value"),
        ({"reason": ""}, "reason"),
        ({"reason": "x" * 257}, "reason"),
        ({"reason": "a\u001b[2Jb"}, "reason"),
    ],
)
async def test_a_member_that_is_unknown_or_malformed_moves_nothing(desk, member, field):
    payment_id = await simulated(desk.rest)
    for profile in PROFILES.values():
        headers = {**desk.rest.merchant, **profile}
        body = {"paymentId": payment_id, **member}
        answer = await desk.ask("POST", "/v1/refunds", headers, body)
        assert answer.refusal == (400, "params_validation")
        assert answer.body["issues"][0]["field"] == field
    assert (await desk.rest.detail(payment_id))["refunds"] == []


async def test_a_field_of_a_newer_version_moves_nothing(desk):
    """A server that ignored the field would refund more than intended."""
    payment_id = await simulated(desk.rest)
    request = refund_pb2.CreateRefundRequest(payment_id=payment_id)
    newer = request.SerializeToString() + bytes([15 << 3 | 0, 1])
    request = refund_pb2.CreateRefundRequest.FromString(newer)
    create_refund = merchant_pb2_grpc.MerchantServiceStub(desk.channel).CreateRefund
    call = desk.grpc.ask(create_refund, request, desk.grpc.merchant)
    assert await refusal(call) == (400, "params_validation")
    assert (await desk.rest.detail(payment_id))["refunds"] == []


async def test_a_payment_takes_so_many_refunds(desk, side):
    payment_id = await simulated(side)
    unit = await token_of(side, payment_id)
    most = desk.service.settings.refunds_max
    for _ in range(most):
        await side.refund(payment_id, amount={"unit": unit, "value": "1"})
    details = await rest_of(side.refund(payment_id, amount={"unit": unit, "value": "1"}))
    assert details["maxRefunds"] == str(most)
    assert details["refundable"] == str(PRICE - most)
