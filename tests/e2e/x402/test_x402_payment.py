"""Payments of Florin that programs pay by x402."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from unittest.mock import AsyncMock

import pytest
import pytest_asyncio
from florin_server.settings import X402Settings

from tests.support.address_outages import hide_assets, hide_outcomes
from tests.support.addresses import ORDER, PRICE, open_address, post_addresses
from tests.support.operator import check_ledger
from tests.support.service_harness import open_service
from tests.support.until import advance, wait_until
from tests.support.x402 import (
    X402Buyer,
    decode_header,
    pay_until_final,
    read_offer,
    request,
)
from tests.support.x402_clients import PresentChains, pay

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("x402_payment") / "home"
    x402 = X402Settings(wait_s=0.5)
    fees = {"fee_fixed": 7, "fee_basis_points": 100}
    async with open_service(home, evm=PresentChains(), x402=x402, **fees) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def buyer(service) -> X402Buyer:
    buyer = X402Buyer()
    await service.chain.fund(buyer.address)
    return buyer


async def test_signed_transfer_pays_merchant_and_operator(service, buyer):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    offer = await read_offer(service, payment_id)
    assert offer["amount"] == str(PRICE)
    address = await open_address(service, payment_id)
    assert offer["payTo"] == address["address"]
    signed = buyer.sign(offer, service.now)
    before = await service.chain.balance(buyer.address)
    answer, codes = await pay_until_final(service, payment_id, signed)
    assert answer.status == 200, answer.text
    assert set(codes[:-1]) <= {202}
    response = decode_header(answer.headers["PAYMENT-RESPONSE"])
    assert response["success"]
    assert response["payer"] == buyer.address.lower()
    detail = await service.rest.detail(payment_id)
    assert detail["buyer"]["accountCaip10"].endswith(buyer.address.lower())
    assert before - await service.chain.balance(buyer.address) == PRICE
    assert await service.chain.balance(address["address"]) == 0
    await check_ledger(service)
    # the same signature and another one get the same answer, and are not charged
    again = await request(service, payment_id, buyer.sign(offer, service.now))
    assert (again.status, again.headers["PAYMENT-RESPONSE"]) == (
        200,
        answer.headers["PAYMENT-RESPONSE"],
    )
    assert (await request(service, payment_id)).status == 200
    assert before - await service.chain.balance(buyer.address) == PRICE


async def test_chain_that_did_not_answer_since_the_start_is_tried_again(
    service, buyer, monkeypatch
):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    with monkeypatch.context() as patch:
        hide_assets(patch)
        answers = [
            await request(service, payment_id),
            await service.ask("GET", f"/{payment_id}", {"Accept": "application/json"}),
            await post_addresses(service, payment_id),
        ]
    for answer in answers:
        assert answer.status == 503, answer.text
        assert answer.headers["Retry-After"] == "1"
    signed = buyer.sign(await read_offer(service, payment_id), service.now)
    answer, _ = await pay_until_final(service, payment_id, signed)
    assert answer.status == 200


async def test_ten_at_once_and_six_different_at_once_are_charged_once(service, buyer):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    offer = await read_offer(service, payment_id)
    before = await service.chain.balance(buyer.address)
    same = buyer.sign(offer, service.now)
    different = [buyer.sign(offer, service.now) for _ in range(6)]
    answers = await asyncio.gather(
        *(request(service, payment_id, signed) for signed in [*[same] * 10, *different])
    )
    assert {answer.status for answer in answers} <= {200, 202}
    answer, _ = await pay_until_final(service, payment_id, same)
    assert answer.status == 200
    assert before - await service.chain.balance(buyer.address) == PRICE
    assert service.select("SELECT count(*) FROM facilitation WHERE payment_id = ?", payment_id) == [
        (1,)
    ]


@pytest.mark.parametrize("language", ["python", "node"])
async def test_published_client_pays(service, buyer, language):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    offer = await read_offer(service, payment_id)
    url = f"{service.rest.base}/x402/{payment_id}"
    key = "0x" + buyer.key.hex()
    before = await service.chain.balance(buyer.address)
    paying = asyncio.create_task(pay(language, key=key, url=url, network=offer["network"]))
    last_s = time.monotonic()

    async def move() -> None:
        # as fast as the client's own clock: it signs until a time, and may take long to start
        nonlocal last_s
        before_s, last_s = last_s, time.monotonic()
        service.clock.advance(last_s - before_s)

    await wait_until(paying.done, meanwhile=move, patience_s=120)
    assert paying.result()["status"] in {200, 202}, paying.result()

    async def step() -> None:
        await advance(service.clock, 1.5)

    async def read() -> str:
        return str((await service.rest.status(payment_id))["status"])

    await wait_until(read, "succeeded", meanwhile=step)
    assert (await request(service, payment_id)).status == 200
    assert before - await service.chain.balance(buyer.address) == PRICE


@pytest.mark.parametrize(
    "changes",
    [
        {"payTo": "0x" + "5c" * 20},
        {"amount": "1"},
        {"network": "eip155:1"},
        {"asset": "0x" + "5c" * 20},
    ],
)
async def test_other_accepted_requirements_are_refused(service, buyer, changes):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    offer = await read_offer(service, payment_id)
    signed = buyer.sign({**offer, **changes}, service.now)
    answer = await request(service, payment_id, signed)
    reason = "accepted_requirements_mismatch"
    assert (answer.status, answer.body["error"]) == (402, reason)
    if changes.keys() & {"payTo", "amount"}:
        # what was signed for something else does not pass with the right requirements beside it
        answer = await request(service, payment_id, {**signed, "accepted": offer})
        assert answer.status == 402
    assert (await service.rest.status(payment_id))["status"] == "requires_action"


async def test_signature_for_another_payment_is_refused(service, buyer):
    first, second = [(await service.rest.create(ORDER))["paymentId"] for _ in range(2)]
    signed = buyer.sign(await read_offer(service, first), service.now)
    offer = await read_offer(service, second)
    answer = await request(service, second, signed)
    assert answer.status == 402
    answer = await request(service, second, {**signed, "accepted": offer})
    assert answer.status == 402
    assert answer.body["error"] == "invalid_exact_evm_payload_recipient_mismatch"


@pytest.mark.parametrize("text", ["", "{}", "[]", "no JSON", '{"x402Version": 1}', "a" * 9000])
async def test_header_that_is_no_payment_is_refused(service, text):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    answer = await request(service, payment_id, text)
    assert answer.status in {402, 431}
    raw = await service.ask("GET", f"/x402/{payment_id}", {"PAYMENT-SIGNATURE": "no base64 !"})
    assert (raw.status, raw.body["error"]) == (402, "invalid_payload")


async def test_ended_and_unknown_payments_are_not_required(service, buyer):
    assert (await request(service, "pay_unknown")).refusal == (404, "payment_not_found")
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    signed = buyer.sign(await read_offer(service, payment_id), service.now)
    await service.rest.call("POST", f"/v1/payments/{payment_id}/cancel", service.rest.merchant)
    for answer in (
        await request(service, payment_id),
        await request(service, payment_id, signed),
        await request(service, payment_id, signed, "POST"),
    ):
        assert answer.status == 410
        assert answer.body == {"paymentId": payment_id, "status": "cancelled"}
    assert service.select("SELECT count(*) FROM facilitation WHERE payment_id = ?", payment_id) == [
        (0,)
    ]


async def test_payment_in_progress_is_never_required_again(service, buyer):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    signed = buyer.sign(await read_offer(service, payment_id), service.now)
    await service.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    try:
        for sent in (signed, None, buyer.sign(signed["accepted"], service.now)):
            answer = await request(service, payment_id, sent)
            assert answer.status == 202
            assert answer.headers["Retry-After"] == "1"
    finally:
        await service.chain.ask("florin_fault", {"kind": "clear"})
    answer, _ = await pay_until_final(service, payment_id, signed)
    assert answer.status == 200


async def test_success_names_a_transaction_only_once_its_transfer_has_ended(
    service, buyer, monkeypatch
):
    """A stranger's copy can have made the transfer, so the answer would change."""
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    signed = buyer.sign(await read_offer(service, payment_id), service.now)
    hide_outcomes(monkeypatch)
    await request(service, payment_id, signed)

    async def read_status() -> str:
        await advance(service.clock, 1)
        return (await service.rest.detail(payment_id))["status"]

    await wait_until(read_status, "succeeded")
    answer = await request(service, payment_id, signed)
    assert (answer.status, answer.headers.get("PAYMENT-RESPONSE")) == (202, None)
    monkeypatch.undo()
    answer, _ = await pay_until_final(service, payment_id, signed)
    assert answer.status == 200
    assert decode_header(answer.headers["PAYMENT-RESPONSE"])["transaction"]


async def test_link_of_a_payment_answers_programs_as_its_x402_url(service, buyer):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    by_url = await request(service, payment_id)
    by_link = await service.ask("GET", f"/{payment_id}", {"Accept": "application/json"})
    assert (by_link.status, by_link.body) == (402, by_url.body)
    assert by_link.headers["PAYMENT-REQUIRED"] == by_url.headers["PAYMENT-REQUIRED"]
    signed = buyer.sign(by_link.body["accepts"][0], service.now)
    text = base64.b64encode(json.dumps(signed).encode()).decode()

    async def move() -> None:
        await advance(service.clock, 1.5)

    async def read():
        answer = await service.ask("GET", f"/{payment_id}", {"PAYMENT-SIGNATURE": text})
        return answer if answer.status != 202 else None

    answer = await wait_until(read, meanwhile=move)
    assert answer.status == 200
    assert decode_header(answer.headers["PAYMENT-RESPONSE"])["success"]


@pytest.mark.parametrize(
    "accept", ["text/html", "*/*", "", "text/html,application/json;q=0.9", "image/png"]
)
async def test_link_of_a_payment_stays_a_page_for_all_others(service, accept):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    for method in ("GET", "HEAD"):
        answer = await service.ask(method, f"/{payment_id}", {"Accept": accept})
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/html")
        assert "Access-Control-Allow-Origin" not in answer.headers
    unknown = await service.ask("GET", "/pay_unknown", {"Accept": "application/json"})
    assert unknown.status == 404


async def test_payment_that_programs_cannot_pay_has_its_page_for_them_too(service, monkeypatch):
    accepts = "florin_server.money.x402.service.offers.accepts_x402"
    monkeypatch.setattr(accepts, AsyncMock(return_value=False))
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    answer = await service.ask("GET", f"/{payment_id}", {"Accept": "application/json"})
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")


async def test_browsers_of_other_origins_can_pay(service, buyer):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    path = f"/x402/{payment_id}"
    query = {"Origin": "https://agent.example", "Access-Control-Request-Method": "GET"}
    query["Access-Control-Request-Headers"] = "payment-signature"
    preflight = await service.ask("OPTIONS", path, query)
    assert preflight.status == 204
    assert preflight.headers["Access-Control-Allow-Origin"] == "*"
    assert "payment-signature" in preflight.headers["Access-Control-Allow-Headers"]
    answers = [await request(service, payment_id), await request(service, "pay_unknown")]
    signed = buyer.sign(answers[0].body["accepts"][0], service.now)
    answers.append((await pay_until_final(service, payment_id, signed))[0])
    assert [answer.status for answer in answers] == [402, 404, 200]
    for answer in answers:
        assert answer.headers.getall("Access-Control-Allow-Origin") == ["*"]
        assert "Access-Control-Allow-Credentials" not in answer.headers
    for answer in (answers[0], answers[2]):
        exposed = ", ".join(answer.headers.getall("Access-Control-Expose-Headers"))
        assert {"payment-required", "payment-response"} <= {*exposed.split(", ")}


async def test_browsers_of_other_origins_read_nothing_of_the_facilitator(service):
    for name in ("supported", "verify", "settle"):
        preflight = await service.ask("OPTIONS", f"/x402/facilitator/{name}")
        assert preflight.status in {404, 405}
        assert "Access-Control-Allow-Origin" not in preflight.headers
    # what wallets are allowed stays as it is
    wallets = await service.ask("OPTIONS", "/v1/gateway/payment/pay_unknown")
    assert "payment-signature" not in wallets.headers["Access-Control-Allow-Headers"]


async def test_failed_transfer_leaves_the_payment_payable(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    poor = X402Buyer()
    signed = poor.sign(await read_offer(service, payment_id), service.now)
    answer = await request(service, payment_id, signed)
    assert (answer.status, answer.body["error"]) == (402, "transaction_simulation_failed")
    rich = X402Buyer()
    await service.chain.fund(rich.address)
    signed = rich.sign(await read_offer(service, payment_id), service.now)
    answer, _ = await pay_until_final(service, payment_id, signed)
    assert answer.status == 200
