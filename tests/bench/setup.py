"""Set up what several figures need: payments, wallets, options, signatures."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.request import Request, urlopen

import orjson
from florin_server.db.engine.where import DatabaseConfig
from florin_server.money.open_store import open_store

from tests.bench import http1, load
from tests.bench.florin import Florin
from tests.bench.load import RestJob
from tests.support import processes
from tests.support.wallet import EvmTestWallet

PRICE = {"unit": "iso4217/USD", "value": "1250"}


def create_request(florin: Florin, key: str) -> bytes:
    """Build the request that creates a payment under an idempotency key."""
    headers = {**florin.merchant, "Idempotency-Key": key}
    return http1.request(
        "POST", "/v1/payments", headers, {"amount": PRICE, "referenceId": f"order-{key}"}
    )


def new_payments(florin: Florin, pool: ProcessPoolExecutor, count: int) -> list[str]:
    """Create payments over REST; return their IDs."""
    body = {"amount": PRICE, "referenceId": "bench"}
    request = http1.request("POST", "/v1/payments", florin.merchant, body)
    job = RestJob(florin.http, (request,) * count, keep=True)
    return [orjson.loads(body)["paymentId"] for body in load.run(pool, job).bodies]


def with_accounts(florin: Florin, database: DatabaseConfig) -> Florin:
    """Create a partner, a merchant and a wallet in a service's database; return it with them."""
    return replace(florin, env=asyncio.run(_accounts(florin, database)))


async def _accounts(florin: Florin, database: DatabaseConfig) -> dict[str, str]:
    store = await open_store(database)
    try:
        return await processes.create_accounts(florin.home.path, store)
    finally:
        await store.close()


def accounts(florin: Florin, count: int) -> list[str]:
    """Return CAIP-10 accounts with test money."""
    wallets = [EvmTestWallet(florin.env["FLORIN_EVM_CHAIN"]) for _ in range(count)]
    fund(florin, wallets)
    return [wallet.account for wallet in wallets]


def fund(florin: Florin, wallets: list[EvmTestWallet]) -> None:
    """Fill wallets from the faucet, a hundred at a time."""
    for start in range(0, len(wallets), 100):
        part = [wallet.address for wallet in wallets[start : start + 100]]
        ask_chain(florin, "florin_faucet", {"accounts": part})


def ask_chain(florin: Florin, method: str, *params: Any) -> Any:
    question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
    headers = {"Content-Type": "application/json"}
    request = Request(florin.env["FLORIN_EVM_RPC_URL"], json.dumps(question).encode(), headers)
    with urlopen(request, timeout=load.PATIENCE_S) as answer:
        content = json.load(answer)
    if "error" in content:
        raise RuntimeError(f"the chain refused {method}: {content['error']}")
    return content["result"]


def options_request(florin: Florin, payment: str, payers: list[str]) -> bytes:
    """Build the request for the options of accounts for a payment."""
    path = f"/v1/gateway/payment/{payment}/options"
    return http1.request("POST", path, florin.wallet, {"accounts": payers})
