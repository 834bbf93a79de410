"""The facilitator of x402 on the embedded EVM chain: servers settle their buyers' payments."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.settings import X402Settings

from tests.support.operator import check_ledger
from tests.support.service_harness import open_service
from tests.support.x402 import NETWORK, X402Buyer, X402Server, make_requirements

pytestmark = pytest.mark.asyncio(loop_scope="module")
SHOP = "0x" + "5b" * 20


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("x402") / "home"
    async with open_service(home, x402=X402Settings(facilitator=True)) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server(service) -> X402Server:
    return await X402Server.create(service)


@pytest_asyncio.fixture(loop_scope="module")
async def buyer(service) -> X402Buyer:
    buyer = X402Buyer()
    await service.chain.fund(buyer.address)
    return buyer


async def test_supported_lists_networks_and_signers(service, server):
    answer = (await server.ask("supported")).body
    assert answer["kinds"] == [{"x402Version": 2, "scheme": "exact", "network": NETWORK}]
    assert answer["extensions"] == []
    (signer,) = answer["signers"]["eip155:*"]
    assert await service.chain.coin(signer) > 0


async def test_settled_payment_moves_the_money_once(service, server, buyer):
    payment = buyer.sign(make_requirements(SHOP), service.now)
    before = await service.chain.balance(SHOP)
    assert await server.verify(payment) == {"isValid": True, "payer": buyer.address.lower()}
    answer = await server.settle(payment)
    assert answer["success"], answer
    assert answer["network"] == NETWORK
    assert answer["payer"] == buyer.address.lower()
    assert answer["amount"] == "12345"
    receipt = await service.chain.ask("eth_getTransactionReceipt", answer["transaction"])
    assert receipt["to"] == DEVNET.tokens[0].address.lower()
    assert await server.settle(payment) == answer
    assert (await server.verify(payment))["isValid"]
    assert await service.chain.balance(SHOP) - before == 12_345
    await check_ledger(service)


async def test_ten_calls_at_once_settle_once(service, server, buyer):
    payment = buyer.sign(make_requirements(SHOP), service.now)
    before = await service.chain.balance(SHOP)
    answers = await asyncio.gather(*(server.settle(payment) for _ in range(10)))
    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["success"], answers[0]
    assert await service.chain.balance(SHOP) - before == 12_345
