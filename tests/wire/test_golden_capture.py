"""Answers to wallets whose buyers must give data, compared with the files in golden/."""

from __future__ import annotations

import json
from typing import Any

import pytest
import pytest_asyncio

from tests.support.capture import submit_form
from tests.support.golden import PROFILES, compare_golden, mask_hashes
from tests.support.service_harness import ORDER, ServiceHarness, open_service
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("golden"), capture={"enabled": True}) as desk:
        yield desk


@pytest.mark.parametrize("profile", PROFILES)
async def test_a_payment_that_needs_data_about_its_buyer(desk, profile, update_golden):
    headers = {**desk.rest.wallet, **PROFILES[profile], "Request-Id": "golden"}
    wallet, payment_id = EvmTestWallet(), (await desk.rest.create(ORDER))["paymentId"]
    side = f"/v1/gateway/payment/{payment_id}"
    accounts = {"accounts": [wallet.account]}
    answers = [await _answer(desk, f"{side}/options", headers, accounts)]
    (option,) = answers[0]["body"]["options"]
    build = option["actions"][0]["data"]["data"]
    fetch = {"optionId": option["id"], "data": build}
    confirm = {
        "optionId": option["id"],
        "results": [{"type": "walletRpc", "data": ["0x" + "22" * 65]}],
    }
    wrong = {"fields": [{"id": "dob", "value": "1987"}, {"id": "tosConfirmed", "value": "true"}]}
    url = option["collectData"]["url"]
    answers += [
        await _answer(desk, f"{side}/fetch", headers, fetch),
        await _answer(desk, f"{side}/fetch", headers, {**fetch, "collectedData": wrong}),
        await _answer(desk, f"{side}/confirm", headers, confirm),
    ]
    # the form is for people, not a part of the documented API
    assert (await submit_form(desk, url)).body == {"status": "success"}
    answers += [
        await _answer(desk, f"{side}/options", headers, accounts),
        await _answer(desk, f"{side}/fetch", headers, fetch),
    ]
    file = f"capture.{'deployed' if profile == 'deployed' else 'spec'}.json"
    existing = {
        payment_id: "<payment id>",
        option["id"]: "<option id>",
        build: "<build>",
        wallet.address: "<wallet address>",
        wallet.address.lower(): "<wallet address, lower case>",
        url.rpartition("=")[2]: "<token>",
    }
    compare_golden(file, _masked(answers, existing), update=update_golden)


async def _answer(
    desk: ServiceHarness, path: str, headers: dict[str, str], body: Any
) -> dict[str, Any]:
    answer = await desk.ask("POST", path, headers, body)
    call = f"POST {path} {json.dumps(body)}"
    return {"call": call, "status": answer.status, "body": answer.body}


def _masked(answers: Any, existing: dict[str, str]) -> Any:
    text = json.dumps(answers)
    for value, placeholder in existing.items():
        text = text.replace(value, placeholder)
    return json.loads(mask_hashes(text))
