"""Paid APIs and buyers made of x402's published packages, with Florin as their facilitator."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.settings import X402Settings

from tests.support.service_harness import open_service
from tests.support.x402 import NETWORK, TOKEN, X402Buyer, X402Server, decode_header
from tests.support.x402_clients import PresentChains, find_free_port, pay, run_paid_api

pytestmark = pytest.mark.asyncio(loop_scope="module")
SHOP = "0x" + "5b" * 20


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("x402") / "home"
    settings = X402Settings(facilitator=True)
    async with open_service(home, evm=PresentChains(), x402=settings) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def variables(service) -> dict[str, str]:
    server = await X402Server.create(service)
    return {
        "FACILITATOR_URL": f"{service.rest.base}/x402/facilitator",
        "FACILITATOR_KEY": server.secret,
        "NETWORK": NETWORK,
        "TOKEN": TOKEN.address,
        "TOKEN_NAME": TOKEN.name,
        "TOKEN_VERSION": TOKEN.version,
        "PAY_TO": SHOP,
    }


@pytest.mark.parametrize("seller", ["python", "node"])
@pytest.mark.parametrize("buyer", ["python", "node"])
async def test_published_client_pays_a_published_server(service, variables, seller, buyer):
    account = X402Buyer()
    await service.chain.fund(account.address)
    before = await service.chain.balance(SHOP)
    async with run_paid_api(seller, find_free_port(), variables) as url:
        result = await pay(buyer, key="0x" + account.key.hex(), url=url, network=NETWORK)
    assert result.get("status") == 200, result
    assert result["body"] == {"weather": "sunny"}
    response = decode_header(result["response"])
    assert response["success"]
    receipt = await service.chain.ask("eth_getTransactionReceipt", response["transaction"])
    assert receipt["to"] == DEVNET.tokens[0].address.lower()
    assert await service.chain.balance(SHOP) - before == 10_000


@pytest.mark.parametrize("buyer", ["python", "node"])
async def test_client_as_shipped_pays_only_assets_of_its_own_list(service, variables, buyer):
    account = X402Buyer()
    await service.chain.fund(account.address)
    before = await service.chain.balance(account.address)
    async with run_paid_api("python", find_free_port(), variables) as url:
        key = "0x" + account.key.hex()
        result = await pay(buyer, key=key, url=url, network=NETWORK, controls="default")
    assert "spend" in result["error"].lower(), result
    assert await service.chain.balance(account.address) == before
