"""Answers about receipts, compared with the files in golden/ like every other answer."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import pytest_asyncio

from tests.support.desk import Desk, Offer
from tests.support.golden import PROFILES, compare

MOMENT = "2027-01-15T08:00:30.000Z"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def offers(desk) -> list[Offer]:
    """One that was paid on the chain, and one that nobody has paid."""
    paid, open_ = await desk.offer(), await desk.offer()
    await desk.confirm(paid)
    assert (await desk.ended(paid.payment_id))["status"] == "succeeded"
    return [paid, open_]


@pytest.mark.parametrize("profile", PROFILES)
async def test_a_receipt_and_that_there_is_none(desk, offers, profile, update_golden):
    headers = {**desk.rest.merchant, **PROFILES[profile], "Request-Id": "golden"}
    answers = []
    for offer in offers:
        answer = await desk.ask("GET", f"/v1/payments/{offer.payment_id}/receipt", headers)
        call = "GET /v1/payments/<payment id>/receipt"
        told = _masked(answer.body, desk, offer)
        answers.append({"call": call, "status": answer.status, "body": told})
    file = f"receipt.{'deployed' if profile == 'deployed' else 'spec'}.json"
    compare(file, answers, update=update_golden)


def _masked(body: Any, desk: Desk, offer: Offer) -> Any:
    text = json.dumps(body)
    known = {
        offer.payment_id: "<payment id>",
        offer.wallet.address.lower(): "<wallet address, lower case>",
    }
    if "receipt" in body:
        known |= {body["receipt"]: "<receipt>", body["keyId"]: "<receipt key id>"}
    for value, placeholder in known.items():
        text = text.replace(value, placeholder)
    # time went on until the payment had ended
    text = re.sub(r'("issuedAt": ")2027-01-15T[0-9:.]+Z', rf"\g<1>{MOMENT}", text)
    return json.loads(text)
