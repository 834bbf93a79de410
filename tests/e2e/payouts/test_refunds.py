"""A merchant gives the money back: asked for once, in full, for what was really paid."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.support.api import Refused, RestApi
from tests.support.desk import DEPLOYED, SPEC
from tests.support.story import ORDER, PRICE, follow

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNKNOWN = {"spec": (404, "payment_not_found"), "deployed": (404, "not_found")}
PROFILES = {"spec": SPEC, "no header": {}, "deployed": DEPLOYED}


@pytest.fixture(params=["rest", "grpc"])
def side(request, desk):
    return getattr(desk, request.param)


async def paid(api, wallet=None) -> str:
    """A payment whose money really moved."""
    payment_id = (await api.create(ORDER))["paymentId"]
    (option,) = (await api.options(payment_id, [wallet.account]))["options"]
    await api.confirm(payment_id, option["id"], wallet.execute_all(option))
    assert (await asyncio.wait_for(follow(api, payment_id), 20))[-1]["status"] == "succeeded"
    return payment_id


async def simulated(api) -> str:
    payment_id = (await api.create(ORDER))["paymentId"]
    await api.simulate(payment_id, "succeeded")
    return payment_id


async def refusal(call) -> tuple[int, str]:
    with pytest.raises(Refused) as caught:
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
    }
    assert re.fullmatch(r"rfnd_[A-Za-z0-9]{17}", answer["refundId"])
    refund = await desk.refunded(payment_id)
    detail = await side.detail(payment_id)
    assert detail["refund"] == refund
    assert set(refund) == {"refundId", "status", "amount", "txId", "createdAt", "completedAt"}
    assert (refund["refundId"], refund["status"]) == (answer["refundId"], "succeeded")
    assert refund["amount"] == before["info"]["optionAmount"]
    assert refund["amount"]["value"] == str(PRICE)
    assert await desk.chain.balance(wallet.address) == held + PRICE
    # the payment itself stays as it is
    assert {**detail, "refund": None} == before


async def test_a_simulated_payment_has_no_money_to_go_back(desk, side):
    payment_id = await simulated(side)
    answer = await side.refund(payment_id)
    refund_id = answer["refundId"]
    told = {"refundId": refund_id, "status": "succeeded", "txId": f"test:{refund_id}"}
    assert answer == {"paymentId": payment_id, **told}
    refund = (await side.detail(payment_id))["refund"]
    assert {key: refund[key] for key in told} == told
    assert refund["completedAt"] == refund["createdAt"]
    assert desk.select("SELECT count(*) FROM payout WHERE id = ?", refund_id) == [(0,)]


async def test_the_money_goes_to_who_paid(desk, wallet):
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


async def test_refunds_that_race_for_one_payment(desk):
    payment_id = await simulated(desk.rest)
    sides = [desk.rest, desk.grpc] * 10
    results = await asyncio.gather(*(s.refund(payment_id) for s in sides), return_exceptions=True)
    (done,) = [one for one in results if not isinstance(one, Refused)]
    assert {(e.http, e.code) for e in results if isinstance(e, Refused)} == {
        (409, "already_refunded")
    }
    assert (await desk.rest.detail(payment_id))["refund"]["refundId"] == done["refundId"]


async def test_a_retried_refund_is_the_first_one(desk, side):
    payment_id = await simulated(side)
    first = await side.refund(payment_id, key=f"back-{payment_id}")
    # over both protocols: the key stands for the request, not for the way it came
    for other in (side, desk.rest, desk.grpc):
        assert await other.refund(payment_id, key=f"back-{payment_id}") == first
    path, body = "/v1/refunds", {"paymentId": payment_id}
    headers = {**desk.rest.merchant, "Idempotency-Key": f"back-{payment_id}"}
    answer = await desk.ask("POST", path, headers, body)
    assert (answer.status, answer.headers["Idempotent-Replayed"]) == (200, "true")
    another = {"paymentId": await simulated(side)}
    assert (await desk.ask("POST", path, headers, another)).told == (409, "idempotency_conflict")


async def test_a_refused_refund_leaves_its_key_unused(side):
    payment_id = (await side.create(ORDER))["paymentId"]
    key = f"early-{payment_id}"
    assert await refusal(side.refund(payment_id, key=key)) == (400, "payment_not_succeeded")
    await side.simulate(payment_id, "succeeded")
    assert (await side.refund(payment_id, key=key))["status"] == "succeeded"


@pytest.mark.parametrize("outcome", [None, "stall", "failed", "expired", "cancelled"])
async def test_only_what_succeeded_is_refunded(side, outcome):
    payment_id = (await side.create(ORDER))["paymentId"]
    if outcome:
        await side.simulate(payment_id, outcome)
    assert await refusal(side.refund(payment_id)) == (400, "payment_not_succeeded")
    assert (await side.detail(payment_id))["refund"] is None


@pytest.mark.parametrize("profile", PROFILES)
async def test_payments_of_others_are_unknown(desk, profile):
    own = await simulated(desk.rest)
    tenant, live = await desk.tenant(), await desk.tenant(live=True)
    told = UNKNOWN.get(profile, UNKNOWN["spec"])
    for headers in (tenant.headers, live.headers):
        answer = await desk.ask(
            "POST", "/v1/refunds", {**headers, **PROFILES[profile]}, {"paymentId": own}
        )
        assert answer.told == told
        assert "not found" in answer.body["message"]
    headers = {**desk.rest.merchant, **PROFILES[profile]}
    answer = await desk.ask("POST", "/v1/refunds", headers, {"paymentId": "pay_unknown"})
    assert answer.told == told
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
    assert answer.told == (400, "params_validation")
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
    assert answer.told == (403, "forbidden")
