"""Payments of Florin on Solana by programs made of x402's published packages."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.settings import EmbeddedSolanaSettings, X402Settings

from tests.support.service_harness import open_service
from tests.support.solana import SolanaNodeClient, SolanaTestWallet
from tests.support.solana_offers import PRICE
from tests.support.solana_pay import ORDER, fund, wait_status
from tests.support.until import wait_until
from tests.support.x402 import decode_header, request
from tests.support.x402_clients import PresentChains, pay

pytestmark = pytest.mark.asyncio(loop_scope="module")
# the packages know three clusters by their CAIP-2 ids, and refuse all others
CHAIN = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"
GENESIS_HASH = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"


@pytest.fixture(scope="module")
def known_cluster():
    """Give the embedded cluster the genesis hash of Solana's public test cluster."""
    own = {name: getattr(SOLANA_DEVNET, name) for name in ("chain_id", "genesis_hash")}
    try:
        object.__setattr__(SOLANA_DEVNET, "chain_id", CHAIN)
        object.__setattr__(SOLANA_DEVNET, "genesis_hash", GENESIS_HASH)
        yield
    finally:
        for name, value in own.items():
            object.__setattr__(SOLANA_DEVNET, name, value)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory, known_cluster):
    home = tmp_path_factory.mktemp("x402_solana_packages") / "home"
    settings = {"evm": PresentChains(), "x402": X402Settings(wait_s=0.5)}
    # the package for Node asks for a confirmed blockhash
    solana = EmbeddedSolanaSettings(slot_s=0, finalized_slots=1)
    async with open_service(home, solana=solana, **settings) as service:
        yield service


@pytest.fixture
def node(service) -> SolanaNodeClient:
    return SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])


@pytest.mark.parametrize("language", ["python", "node"])
async def test_published_client_pays(service, node, language):
    buyer, merchant = SolanaTestWallet(), service.env["FLORIN_SOLANA_DESTINATION"]
    merchant = merchant.rpartition(":")[2]
    await fund(node, buyer)
    # its token account has to exist
    await node.ask("florin_faucet", {"accounts": [merchant]})
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    before = await node.balance(buyer.address), await node.balance(merchant)
    job = {
        "key": bytes(buyer.key)[:32].hex(),
        "url": f"{service.rest.base}/x402/{payment_id}",
        "network": CHAIN,
        "rpc": service.env["FLORIN_SOLANA_RPC_URL"],
    }
    paying = asyncio.create_task(pay(language, **job))

    async def move() -> None:
        # slowly: the client needs its time until it signs
        service.clock.advance(0.2)

    await wait_until(paying.done, meanwhile=move, patience_s=120)
    result = paying.result()
    assert result.get("status") in {200, 202}, result
    detail = await wait_status(service, node, payment_id, "succeeded")
    assert detail["buyer"]["accountCaip10"] == f"{CHAIN}:{buyer.address}"
    answer = await request(service, payment_id)
    assert answer.status == 200
    response = decode_header(answer.headers["PAYMENT-RESPONSE"])
    assert response["transaction"] == detail["info"]["txId"]
    assert await node.balance(buyer.address) == before[0] - PRICE
    assert await node.balance(merchant) == before[1] + PRICE
