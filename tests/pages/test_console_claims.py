"""Claims of buyers in both consoles: shown with a warning, and decided after a question."""

from __future__ import annotations

import pytest
import pytest_asyncio

from tests.support.addresses import CHAIN, DOLLAR
from tests.support.deposit_claims import hold_claimable_money
from tests.support.service_harness import ORDER, open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")

WARNING = "Anyone who has the link can claim: check with the buyer before you confirm."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(
        tmp_path_factory.mktemp("console"), console=True, metrics_port=0
    ) as desk:
        yield desk


async def make_claims(desk, tenant, count=1, message="Withdrawal <8842115>"):
    """Return a payment and the ids of claims for money that is held at its address."""
    created = await desk.rest.call("POST", "/v1/payments", tenant.headers, ORDER)
    payment_id = created["paymentId"]
    # the clock stands still, and lists are ordered by time
    desk.clock.advance(1)
    await hold_claimable_money(desk, payment_id, 5_000_000)
    claim_ids = []
    for number in range(count):
        desk.clock.advance(1)
        path = f"/v1/gateway/payment/{payment_id}/claims"
        account = f"{CHAIN}:0x{number}{'d' * 39}"
        body = {"asset": DOLLAR, "account": account, "message": message}
        response = await desk.rest.call("POST", path, desk.rest.wallet, body)
        claim_ids.append(response["claims"][0]["claimId"])
    return payment_id, claim_ids


async def list_states(desk, tenant, payment_id):
    path = f"/v1/payments/{payment_id}/deposit-claims"
    listed = await desk.rest.call("GET", path, tenant.headers)
    return [claim["state"] for claim in listed["claims"]]


async def test_merchant_confirms_one_claim_and_the_others_are_rejected(desk, person):
    tenant = await desk.tenant()
    payment_id, claim_ids = await make_claims(desk, tenant, 2)
    await person.sign_in(tenant.secret)
    path = f"/console/merchants/{tenant.merchant.id}/payments/{payment_id}"
    page = (await person.get(path)).text
    assert WARNING in page
    assert "Withdrawal &lt;8842115&gt;" in page
    fields = {"claim": claim_ids[1], "verdict": "confirm"}
    prompt = await person.fill(path, f"{path}/claims", **fields)
    assert prompt.status == 200
    assert "Return this money to the account of the claim?" in prompt.text
    assert WARNING in prompt.text
    assert f"0x1{'d' * 39}" in prompt.text.lower()
    assert await list_states(desk, tenant, payment_id) == ["open", "open"]
    await person.confirm(f"{path}/claims", prompt)
    assert await list_states(desk, tenant, payment_id) == ["rejected", "confirmed"]
    assert f'value="{claim_ids[0]}"' not in (await person.get(path)).text


async def test_merchant_rejects_a_claim_and_the_money_stays_held(desk, person):
    tenant = await desk.tenant()
    payment_id, (claim_id,) = await make_claims(desk, tenant)
    await person.sign_in(tenant.secret)
    path = f"/console/merchants/{tenant.merchant.id}/payments/{payment_id}"
    prompt = await person.fill(path, f"{path}/claims", claim=claim_id, verdict="reject")
    assert "The money stays held." in prompt.text
    await person.confirm(f"{path}/claims", prompt)
    assert await list_states(desk, tenant, payment_id) == ["rejected"]


async def test_merchant_cannot_decide_about_claims_of_another_payment(desk, person):
    tenant = await desk.tenant()
    payment_id, _ = await make_claims(desk, tenant)
    other_id, (claim_id,) = await make_claims(desk, await desk.tenant())
    await person.sign_in(tenant.secret)
    path = f"/console/merchants/{tenant.merchant.id}/payments/{payment_id}"
    refused = await person.fill(path, f"{path}/claims", claim=claim_id, verdict="confirm")
    assert refused.status == 404
    assert other_id != payment_id


async def test_operator_returns_to_the_account_of_a_claim_with_one_press(desk, operator):
    tenant = await desk.tenant()
    payment_id, claim_ids = await make_claims(desk, tenant, 2, "Order 17 <i>")
    await operator.sign_in(desk.service.secrets.operator_token)
    page = await operator.get("/console/held")
    assert "Order 17 &lt;i&gt;" in page.text
    # the first form that leads there is that of the oldest claim of the newest money
    prompt = await operator.fill("/console/held", "/console/held/resolve")
    assert 'name="confirmed"' in prompt.text
    assert f"0x0{'d' * 39}" in prompt.text.lower()
    await operator.confirm("/console/held/resolve", prompt)
    assert await list_states(desk, tenant, payment_id) == ["confirmed", "rejected"]
    assert len(claim_ids) == 2
