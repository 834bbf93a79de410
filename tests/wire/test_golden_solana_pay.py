"""The API's answers about a payment by Solana Pay, compared with the files in golden/."""

from __future__ import annotations

import json
from typing import Any

import pytest
import pytest_asyncio

from tests.support.golden import PROFILES, compare_golden
from tests.support.service_harness import ORDER, ServiceHarness, open_service
from tests.support.solana import INSTANT_SOLANA

pytestmark = pytest.mark.asyncio(loop_scope="module")

CALLS = {
    "GET /v1/gateway/payment/<payment id>": "wallet",
    "GET /v1/payments/<payment id>": "merchant",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("golden") / "home"
    async with open_service(home, solana=INSTANT_SOLANA) as service:
        yield service


@pytest.mark.parametrize("profile", PROFILES)
async def test_the_answers_about_a_payment_by_link(service, profile, update_golden):
    created = await service.rest.create(ORDER)
    answers = [
        await read_answer(service, call, key, created["paymentId"], PROFILES[profile])
        for call, key in CALLS.items()
    ]
    file = f"solana_pay.{'deployed' if profile == 'deployed' else 'spec'}.json"
    compare_golden(file, answers, update=update_golden)


async def read_answer(
    service: ServiceHarness, call: str, key: str, payment_id: str, profile: Any
) -> dict[str, Any]:
    method, path = call.replace("<payment id>", payment_id).split(" ")
    headers = {**getattr(service.rest, key), **profile, "Request-Id": "golden"}
    answer = await service.ask(method, path, headers)
    text = json.dumps(answer.body).replace(payment_id, "<payment id>")
    merchant_id = service.rest.merchant["Merchant-Id"]
    text = text.replace(merchant_id, "<merchant id>")
    return {"call": call, "status": answer.status, "body": json.loads(text)}
