"""Test the answer to a signed transfer that is refused while another one gets bound."""

from __future__ import annotations

import base64
import json

import pytest_asyncio
from florin_server.domain.x402.messages import InvalidReason, InvalidX402Payment
from florin_server.money.x402.service import payment as payment_service
from florin_server.settings import X402Settings

from tests.support.addresses import ORDER
from tests.support.service_harness import open_service
from tests.support.x402 import X402Buyer


@pytest_asyncio.fixture
async def service(tmp_path):
    async with open_service(tmp_path / "home", x402=X402Settings(wait_s=0.5)) as service:
        yield service


async def request(service, payment_id, signed=None):
    headers = {"Accept": "application/json"}
    if signed is not None:
        encoded = base64.b64encode(json.dumps(signed).encode()).decode()
        headers["PAYMENT-SIGNATURE"] = encoded
    return await service.ask("GET", f"/x402/{payment_id}", headers)


async def test_refused_signature_is_not_answered_402_once_another_is_bound(service, monkeypatch):
    buyer = X402Buyer()
    await service.chain.fund(buyer.address)
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    offer = (await request(service, payment_id)).body["accepts"][0]
    first, second = (buyer.sign(offer, service.now) for _ in range(2))

    async def submit_slowly(*_args):
        # the first signature comes while the node does not answer about the second one
        monkeypatch.undo()
        assert (await request(service, payment_id, first)).status in {200, 202}
        raise InvalidX402Payment(InvalidReason.UNAVAILABLE, "no answer")

    monkeypatch.setattr(payment_service, "submit", submit_slowly)
    assert (await request(service, payment_id, second)).status in {200, 202}
