"""Rows of every kind in every list, in both wire profiles, compared with the files in golden/."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.golden import mask_hashes
from tests.support.service_harness import DEPLOYED, SPEC, PaymentOffer, ServiceHarness, open_service
from tests.support.until import wait_until

GOLDEN = Path(__file__).parent / "golden"
PROFILES = {"spec": SPEC, "no header": {}, "deployed": DEPLOYED}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    """Open a service that charges a fee."""
    folder = tmp_path_factory.mktemp("desk")
    async with open_service(folder, fee_fixed=1000, fee_basis_points=40) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def payments(desk) -> dict[str, str]:
    """Create a payment of each kind, oldest first, by the placeholder for its id."""
    created: dict[str, str] = {}
    token = f"caip19/{desk.env['FLORIN_EVM_ASSET']}"

    async def offer(name: str, **order: Any) -> PaymentOffer:
        desk.clock.advance(1)
        expires = desk.now + 86_400
        result = await desk.offer(**{"referenceId": name, "expiresAt": expires, **order})
        created[result.payment_id] = name
        return result

    paid = await offer("succeeded")
    refunded = await offer("refunded")
    for each_offer in (paid, refunded):
        await desk.confirm(each_offer)
        desk.clock.advance(0.25)
        assert (await desk.wait_final(each_offer.payment_id))["status"] == "succeeded"
    body = {"paymentId": refunded.payment_id}
    assert (await desk.ask("POST", "/v1/refunds", desk.rest.merchant, body)).status == 200
    assert (await desk.wait_refunded(refunded.payment_id))["status"] == "succeeded"
    simulated = await offer("simulated", amount={"unit": token, "value": "7000000"})
    path = f"/v1/sandbox/payments/{simulated.payment_id}/simulate"
    answer = await desk.ask("POST", path, desk.rest.merchant, {"outcome": "succeeded"})
    assert answer.status == 200, answer.text
    failed = await offer("failed")
    wrong = await desk.rest.confirm(failed.payment_id, failed.option_id, ["0x" + "11" * 32])
    assert wrong["status"] == "failed"
    cancelled = await offer("cancelled")
    await desk.rest.cancel(cancelled.payment_id)
    expired = await offer("expired", expiresAt=desk.now + 2)
    desk.clock.advance(2)
    assert (await desk.wait_final(expired.payment_id))["status"] == "expired"
    euros = {"unit": "iso4217/EUR", "value": "990"}
    desk.clock.advance(1)
    expected = {"amount": euros, "referenceId": "requires_action", "expiresAt": desk.now + 86_400}
    created[(await desk.rest.create(expected))["paymentId"]] = "requires_action"
    await offer("in_tokens", amount={"unit": token, "value": "2500000"}, referenceId=None)
    processing = await offer("processing")
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    assert (await desk.confirm(processing))["status"] == "processing"

    async def is_sent() -> bool:
        answer = await desk.ask("GET", "/v1/payments?limit=1", desk.rest.merchant)
        return "hash" in answer.body["data"][0]["transaction"]

    await wait_until(is_sent)
    return created


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("partner", "/v1/payments"),
        ("merchant", "/v1/merchants/payments?sortBy=amount&limit=4"),
        ("legacy", "/v1/merchants/<merchant id>/payments"),
    ],
)
async def test_a_list_of_payments_of_every_kind(desk, payments, name, path, profile, update_golden):
    merchant_id = desk.env["FLORIN_MERCHANT_ID"]
    headers = {**desk.rest.merchant, **PROFILES[profile], "Request-Id": "golden"}
    answer = await desk.ask("GET", path.replace("<merchant id>", merchant_id), headers)
    text = json.dumps({"status": answer.status, "body": answer.body})
    seen = _masked(text, {**payments, merchant_id: "merchant id"}, desk)
    file = GOLDEN / f"list_{name}.{'deployed' if profile == 'deployed' else 'spec'}.json"
    if update_golden:
        file.write_text(json.dumps(seen, indent=1, ensure_ascii=False) + "\n")
    assert seen == json.loads(file.read_text())


def _masked(text: str, existing: dict[str, str], desk: ServiceHarness) -> Any:
    text = text.replace(desk.env["FLORIN_EVM_ASSET"].partition(":0x")[2], "<token>")
    for value, name in existing.items():
        text = text.replace(value, f"<{name}>")
    text = re.sub(r"pay_[0-9A-Za-z]{27}", "<first payment>", text)
    text = re.sub(r"rfnd_[0-9A-Za-z]{17}", "<refund id>", text)
    text = re.sub(r'("next_?[cC]ursor": )"[\w-]+"', r'\1"<cursor>"', text)
    text = mask_hashes(text)
    return json.loads(re.sub(r"0x[0-9a-f]{40}(?![0-9a-f])", "<wallet address>", text))
