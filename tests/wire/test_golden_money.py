"""Refunds and simulated outcomes, compared with the files in golden/ like every other answer."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.support.golden import PROFILES, compare_golden
from tests.support.service_harness import ORDER, ServiceHarness

OUTCOMES = ("succeeded", "failed", "expired", "cancelled", "stall")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_a_simulated_payment_and_its_refund(desk, outcome, profile, update_golden):
    headers = {**desk.rest.merchant, **PROFILES[profile], "Request-Id": "golden"}
    created = await desk.ask("POST", "/v1/payments", headers, ORDER)
    payment_id = created.body["paymentId"]
    text = f"/v1/payments/{payment_id}"
    simulate, body = f"/v1/sandbox/payments/{payment_id}/simulate", {"outcome": outcome}
    refund = {"paymentId": payment_id}
    answers = [
        await _answer(desk, "POST", simulate, headers, body),
        await _answer(desk, "POST", simulate, headers, body),
        await _answer(desk, "POST", simulate, headers, {"outcome": "cancelled"}),
        await _answer(desk, "POST", simulate, headers, {}),
        await _answer(desk, "GET", text, headers),
        await _answer(desk, "POST", "/v1/refunds", headers, refund),
        await _answer(desk, "POST", "/v1/refunds", headers, refund),
        await _answer(desk, "POST", "/v1/refunds", headers, {"paymentId": "pay_unknown"}),
        await _answer(desk, "POST", "/v1/refunds", headers, {"paymentId": "unknown"}),
        await _answer(desk, "GET", text, headers),
    ]
    file = f"simulated_{outcome}.{'deployed' if profile == 'deployed' else 'spec'}.json"
    compare_golden(file, _masked(answers, desk, payment_id), update=update_golden)


async def _answer(
    desk: ServiceHarness, method: str, path: str, headers: dict[str, str], body: Any = None
) -> dict[str, Any]:
    answer = await desk.ask(method, path, headers, body)
    call = f"{method} {path}" + ("" if body is None else f" {json.dumps(body)}")
    return {"call": call, "status": answer.status, "body": answer.body}


def _masked(answers: Any, desk: ServiceHarness, payment_id: str) -> Any:
    text = json.dumps(answers).replace(payment_id, "<payment id>")
    text = text.replace(desk.env["FLORIN_MERCHANT_ID"], "<merchant id>")
    return json.loads(re.sub(r"rfnd_[A-Za-z0-9]{17}", "<refund id>", text))
