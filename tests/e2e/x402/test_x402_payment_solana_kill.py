"""A payment by x402 on Solana while Florin is killed, before and after a node has its transfer."""

from __future__ import annotations

import base64
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.api import RestApi
from tests.support.solana import SolanaNodeClient, SolanaTestWallet
from tests.support.solana_pay import ORDER, PRICE, fund
from tests.support.until import wait_until
from tests.support.x402_solana_payments import CHAIN, LOST, sign

pytestmark = [pytest.mark.long, pytest.mark.asyncio]


@contextmanager
def start(forks, home: Path) -> Iterator[Any]:
    with forks.start_lasting("up", home=home, FLORIN_X402__WAIT_S="0.2") as up:
        yield up


async def request(session, env: dict[str, str], payment_id: str, signed: Any = None):
    """Request a payment's link; return the status and the body."""
    headers = {"Accept": "application/json"}
    if signed is not None:
        headers["PAYMENT-SIGNATURE"] = base64.b64encode(json.dumps(signed).encode()).decode()
    url = f"{env['FLORIN_BASE_URL']}/x402/{payment_id}"
    async with session.get(url, headers=headers) as answer:
        return answer.status, await answer.json()


@pytest.mark.parametrize("is_lost", [True, False], ids=["not sent", "sent"])
async def test_program_is_charged_once_after_a_kill(forks, tmp_path, is_lost):
    home, buyer = tmp_path / "home", SolanaTestWallet()
    async with aiohttp.ClientSession() as session:
        with start(forks, home) as up:
            node = SolanaNodeClient(session, up.env["FLORIN_SOLANA_RPC_URL"])
            merchant = up.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]
            await fund(node, buyer)
            # its token account has to exist
            await node.ask("florin_faucet", {"accounts": [merchant]})
            before = await node.balance(buyer.address), await node.balance(merchant)
            api = RestApi(session, up.env["FLORIN_BASE_URL"], up.env)
            payment_id = (await api.create(ORDER))["paymentId"]

            async def read_offer() -> Any:
                status, body = await request(session, up.env, payment_id)
                assert status == 402, body
                return next((way for way in body["accepts"] if way["network"] == CHAIN), None)

            offer = await wait_until(read_offer)
            if is_lost:
                await node.ask("florin_fault", LOST)
            signed = await sign(node, buyer, offer)
            assert (await request(session, up.env, payment_id, signed))[0] == 202
            up.send_signal(signal.SIGKILL)
            up.wait_ended()
        with start(forks, home) as up:
            node = SolanaNodeClient(session, up.env["FLORIN_SOLANA_RPC_URL"])

            async def pay() -> Any:
                status, body = await request(session, up.env, payment_id, signed)
                assert status in {200, 202}, body
                return body if status == 200 else None

            assert (await wait_until(pay, patience_s=60))["status"] == "succeeded"
            assert await node.balance(buyer.address) == before[0] - PRICE
            assert await node.balance(merchant) == before[1] + PRICE
