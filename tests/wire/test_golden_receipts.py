"""The answer about a receipt, compared with the files in golden/ like every other answer."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import pytest_asyncio

from tests.support.golden import PROFILES, compare_golden
from tests.support.service_harness import PaymentOffer

MOMENT = "2027-01-15T08:00:30.000Z"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def offer(desk) -> PaymentOffer:
    """Return a payment that was paid on the chain."""
    paid = await desk.offer()
    await desk.confirm(paid)
    assert (await desk.wait_ended(paid.payment_id))["status"] == "succeeded"
    return paid


@pytest.mark.parametrize("profile", PROFILES)
async def test_the_receipt_of_a_payment(desk, offer, profile, update_golden):
    headers = {**desk.rest.merchant, **PROFILES[profile], "Request-Id": "golden"}
    answer = await desk.ask("GET", f"/v1/payments/{offer.payment_id}/receipt", headers)
    result = {
        "call": "GET /v1/payments/<payment id>/receipt",
        "status": answer.status,
        "body": _masked(answer.body, offer),
    }
    file = f"receipt.{'deployed' if profile == 'deployed' else 'spec'}.json"
    compare_golden(file, [result], update=update_golden)


def _masked(body: Any, offer: PaymentOffer) -> Any:
    existing = {
        offer.payment_id: "<payment id>",
        offer.wallet.address.lower(): "<wallet address, lower case>",
        body["receipt"]: "<receipt>",
        body["keyId"]: "<receipt key id>",
    }
    text = json.dumps(body)
    for value, placeholder in existing.items():
        text = text.replace(value, placeholder)
    # time advanced until the payment had ended
    text = re.sub(r'("issuedAt": ")2027-01-15T[0-9:.]+Z', rf"\g<1>{MOMENT}", text)
    return json.loads(text)
