"""Every answer in every state, in both wire profiles, compared with the files in golden/.

Ids, hashes, addresses and signatures become placeholders; the clock is stopped. Any other change in
an answer (a member more or less, null or left out) is a difference. `--update-golden` rewrites the
files; read the diff.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
import pytest_asyncio

from tests.support.desk import CREATE, ORDER, PaymentOffer, ServiceHarness
from tests.support.golden import PROFILES, compare_golden, mask_hashes
from tests.support.states import CHECKOUT, STATES, create_payment_per_state

ORDER_WITH_LINES: dict[str, Any] = {
    **ORDER,
    "description": "Breakfast at table 7",
    "lines": [
        {"name": "Flat white", "quantity": 2, "amount": "900"},
        {"name": "Croissant", "amount": "350"},
    ],
    "metadata": {"shift": "morning", "table": "7"},
}
LAPSED = "2027-01-15T08:06:50"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def payments(desk) -> dict[str, PaymentOffer]:
    return await create_payment_per_state(desk)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("state", STATES)
async def test_every_answer_about_a_payment(desk, payments, state, profile, update_golden):
    offer = payments[state]
    answers = await _ask_everything(desk, offer, state, PROFILES[profile])
    file = f"{state}.{'deployed' if profile == 'deployed' else 'spec'}.json"
    compare_golden(file, _masked(answers, desk, offer), update=update_golden)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("path", ["/v1/payments", "/v1/merchant/payment"])
@pytest.mark.usefixtures("payments")  # creating them moves the clock, which the answers include
async def test_a_created_payment(desk, path, profile, update_golden):
    headers = {**desk.rest.merchant, **PROFILES[profile]}
    answer = await desk.ask("POST", path, headers, {**ORDER, "checkout": CHECKOUT})
    text = json.dumps({"status": answer.status, "body": answer.body})
    created = json.loads(text.replace(answer.body["paymentId"], "<payment id>"))
    compare_golden("created.json", created, update=update_golden)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.usefixtures("payments")
async def test_created_payment_with_an_order(desk, profile, update_golden):
    headers = {**desk.rest.merchant, **PROFILES[profile], "Request-Id": "golden"}
    first, second = ORDER_WITH_LINES["lines"]
    incomplete = {**ORDER_WITH_LINES, "lines": [{**first, "amount": "750"}, second]}
    created = await desk.ask("POST", CREATE, headers, ORDER_WITH_LINES)
    payment_id = created.body["paymentId"]
    answers = {
        f"POST {CREATE} {json.dumps(ORDER_WITH_LINES)}": created,
        f"POST {CREATE} {json.dumps(incomplete)}": await desk.ask(
            "POST", CREATE, headers, incomplete
        ),
        f"GET {CREATE}/{payment_id}": await desk.ask("GET", f"{CREATE}/{payment_id}", headers),
    }
    text = json.dumps({name: {"status": a.status, "body": a.body} for name, a in answers.items()})
    text = text.replace(payment_id, "<payment id>")
    text = text.replace(desk.env["FLORIN_MERCHANT_ID"], "<merchant id>")
    compare_golden("order.json", json.loads(text), update=update_golden)


async def test_every_transaction_hash_is_masked():
    submission = "0x" + "22" * 65  # as in _ask_everything
    for first in range(256):
        tx_hash = f"0x{first:02x}{'5a' * 31}"
        assert mask_hashes(f"{tx_hash} {submission}") == f"<hash> {submission}"


async def _ask_everything(
    desk: ServiceHarness, offer: PaymentOffer, state: str, profile: dict[str, str]
) -> dict[str, Any]:
    merchant, wallet = {**desk.rest.merchant, **profile}, {**desk.rest.wallet, **profile}
    text, side = f"/v1/payments/{offer.payment_id}", f"/v1/gateway/payment/{offer.payment_id}"
    accounts = {"accounts": [offer.wallet.account, "eip155:31337:nonsense"]}
    results = [{"type": "walletRpc", "data": offer.outputs}]
    remaining = [{"type": "walletRpc", "data": ["0x" + "22" * 65]}]
    calls: list[tuple[str, str, dict[str, str], Any]] = [
        ("GET", text, merchant, None),
        ("GET", f"{text}/status", merchant, None),
        ("GET", f"/v1/merchant/payment/{offer.payment_id}/status", merchant, None),
        ("GET", side, wallet, None),
        ("GET", f"{side}/status", wallet, None),
        ("GET", f"{side}/status?maxPollMs=0", wallet, None),
        ("POST", f"{side}/options", wallet, accounts),
        ("POST", f"{side}/options", wallet, {"accounts": []}),
        ("POST", f"{side}/options?includePaymentInfo=true", wallet, accounts),
        ("POST", f"{side}/fetch", wallet, {"optionId": offer.option_id, "data": ""}),
        ("POST", f"{side}/confirm", wallet, {"optionId": offer.option_id, "results": remaining}),
    ]
    if state != "requires_action":
        calls += [
            ("POST", f"{side}/confirm", wallet, {"optionId": offer.option_id, "results": results}),
            ("POST", f"{side}/cancel", wallet, None),
            ("POST", f"{text}/cancel", merchant, None),
        ]
    answers = {}
    for method, path, headers, body in calls:
        answer = await desk.ask(method, path, {**headers, "Request-Id": "golden"}, body)
        name = f"{method} {path}" + (f" {json.dumps(body)}" if body else "")
        answers[name] = {"status": answer.status, "body": answer.body}
    for path, headers in ((f"{text}/events", merchant), (f"{side}/events", wallet)):
        answers[f"GET {path}"] = await _events(desk, path, headers)
    return answers


async def _events(desk: ServiceHarness, path: str, headers: dict[str, str]) -> dict[str, Any]:
    """Return the first snapshots of a stream, and whether it ends after them."""
    lines: list[str] = []
    url = desk.rest.base + path
    async with desk.session.get(url, headers=headers) as stream:
        # a snapshot ends with its second empty line; after a final one the stream ends as well
        while lines.count("") < 2:
            lines.append((await stream.content.readline()).decode().removesuffix("\n"))
        final = json.loads(lines[4].removeprefix("data: "))["isFinal"]
        rest = await asyncio.wait_for(stream.content.read(), 20) if final else b""
        return {
            "status": stream.status,
            "contentType": stream.content_type,
            "lines": [*lines[:4], json.loads(lines[4].removeprefix("data: ")), lines[5]],
            "rest": rest.decode(),
        }


def _masked(answers: dict[str, Any], desk: ServiceHarness, offer: PaymentOffer) -> Any:
    text = json.dumps(answers)
    existing = {
        offer.payment_id: "<payment id>",
        offer.option_id: "<option id>",
        desk.env["FLORIN_MERCHANT_ID"]: "<merchant id>",
        offer.wallet.address: "<wallet address>",
        offer.wallet.address.lower(): "<wallet address, lower case>",
        **dict.fromkeys(offer.outputs, "<output>"),
    }
    for value, placeholder in existing.items():
        text = text.replace(value, placeholder)
    # the time of the proof that the money cannot move differs between runs
    text = re.sub(
        r'("lastUpdatedAt": ")2027-01-15T08:(0[6-9]|1[0-5]):\d\d', r"\g<1>" + LAPSED, text
    )
    return json.loads(mask_hashes(text))
