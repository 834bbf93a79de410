"""Programs that pay payments of Florin by x402 on the embedded Solana cluster."""

from __future__ import annotations

from typing import Any

from florin_sandbox.devnet.solana import SOLANA_DEVNET

from tests.support.service_harness import ServiceHarness, ServiceResponse
from tests.support.solana import SolanaNodeClient, SolanaTestWallet
from tests.support.until import advance, wait_until
from tests.support.x402 import decode_header, request
from tests.support.x402_solana import list_steps, sign_steps

CHAIN = SOLANA_DEVNET.chain_id
# the fault of a node that loses what is sent
LOST = {"kind": "answer", "method": "sendTransaction", "effect": "drop", "times": 1000}


async def list_offers(service: ServiceHarness, payment_id: str) -> list[dict[str, Any]]:
    """Return the ways to pay on Solana, from the header that clients read."""
    answer = await request(service, payment_id)
    assert answer.status == 402, answer.text
    offers = decode_header(answer.headers["PAYMENT-REQUIRED"])["accepts"]
    return [offer for offer in offers if offer["network"] == CHAIN]


async def create_offer(
    service: ServiceHarness, order: Any, number: int = 0
) -> tuple[str, dict[str, Any]]:
    """Create a payment; return its id, and the way to pay it in a token."""
    payment_id = (await service.rest.create(order))["paymentId"]
    offers = await list_offers(service, payment_id)
    token = SOLANA_DEVNET.tokens[number].address
    (offer,) = [offer for offer in offers if offer["asset"] == token]
    return payment_id, offer


async def sign(
    node: SolanaNodeClient, wallet: SolanaTestWallet, offer: dict[str, Any], memo: str = ""
) -> dict[str, Any]:
    """Sign the transfer that an offer requires, as clients do."""
    return await sign_steps(node, wallet, offer, list_steps(wallet, offer, memo))


async def pay_until_final(
    service: ServiceHarness, node: SolanaNodeClient, payment_id: str, signed: Any
) -> tuple[ServiceResponse, list[int]]:
    """Repeat a request with its signature while time passes; return the answer and all codes."""
    codes = []

    async def move() -> None:
        await advance(service.clock, 1.5)
        await node.fault("slots", slots=2)

    async def read() -> ServiceResponse | None:
        answer = await request(service, payment_id, signed)
        codes.append(answer.status)
        return answer if answer.status != 202 else None

    answer: ServiceResponse = await wait_until(read, meanwhile=move)
    return answer, codes


async def open_accounts(service: ServiceHarness) -> None:
    """Open the token accounts of the merchant."""
    merchant = service.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]
    node = SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])
    await node.ask("florin_faucet", {"accounts": [merchant]})


async def status_of(service: ServiceHarness, payment_id: str) -> str:
    return str((await service.rest.status(payment_id))["status"])


def list_returns(service: ServiceHarness, payment_id: str) -> list[tuple[str, str]]:
    query = "SELECT kind, account FROM payout WHERE payment_id = ?"
    rows: list[tuple[str, str]] = service.select(query, payment_id)
    return rows


async def wait_sent(service: ServiceHarness, payment_id: str) -> str:
    """Return the transaction of a payment's transfer once it is stored."""
    query = "SELECT tx_hash FROM facilitation WHERE payment_id = ? AND state = 'sent'"
    ((tx_hash,),) = await wait_until(lambda: service.select(query, payment_id))
    return str(tx_hash)
