"""Measure the cost of options by part: six accounts, on two EVM chains and Solana.

Each request is a buyer's first look at a payment, so all options are created and stored. The EVM
chains are nodes in separate processes, called over HTTP. The Solana chain runs in the process of
the service, and its own CPU time does not count.
"""

from __future__ import annotations

import asyncio
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import orjson
import uvloop
from florin_server.app.service import FlorinService
from florin_server.settings import EmbeddedSolanaSettings
from solders.keypair import Keypair

from tests.bench import http1, load
from tests.bench.load import Address, RestJob
from tests.bench.node import CHAIN_ID, Node, node
from tests.bench.parts import OTHER, PartSampler
from tests.bench.report import Figure, median_of
from tests.bench.setup import PRICE
from tests.bench.size import sized
from tests.support.own_chain import make_own_chain
from tests.support.service import run_service
from tests.support.wallet import EvmTestWallet

ROUNDS, COUNT = sized((5, 400), (1, 8))
CHAINS, WALLETS = 2, 2
ACCOUNTS = CHAINS * WALLETS + WALLETS
CONNECTIONS = 8

_NODE, _WORKERS, _STORE = "node", "workers", "store"
# the innermost call decides, by the first fragment that its module's path contains
PARTS = {
    "florin_sandbox/devnet/": _NODE,
    "florin_server/db/": _STORE,
    "/store/": _STORE,
    "/store.py": _STORE,
    "sqlalchemy/": _STORE,
    "florin_server/domain/caip.py": "ids",
    "florin_server/rails/pricing/": "prices",
    "payments/service/price.py": "prices",
    "payments/service/conversion.py": "prices",
    "rails/evm/paying/terms.py": "evm_terms",
    "florin_server/domain/chains/evm/": "evm_terms",
    "rails/solana/paying/terms.py": "solana_terms",
    "rails/option_offer.py": "terms",
    "domain/payments/option_names.py": "terms",
    "rails/evm/reading/refusals.py": "receivers",
    "rails/evm/reading/guards.py": "receivers",
    "rails/solana/reading/receivers.py": "receivers",
    "florin_server/rails/evm/": "evm_balances",
    "florin_server/rails/solana/": "solana_balances",
    "florin_server/rails/connection/": "json_rpc",
    "api/payments/codec.py": "answer",
    "grpc_rest_gateway/json": "answer",
    "<encoder of": "answer",
    "grpc_rest_gateway/": "http",
    "uvicorn/": "http",
    "florin_server/api/": "checks",
    "florin_server/limits/": "checks",
    "compliance/screening/": "checks",
    "florin_server/accounts/": "flow",
    "florin_server/compliance/": "flow",
    "florin_server/money/": "flow",
}
# background work, which also uses the parts above
BACKGROUND = {
    "/worker/": _WORKERS,
    "/worker.py": _WORKERS,
    "app/process_bus/": _WORKERS,
    "app/housekeeping/": _WORKERS,
    "app/workers.py": _WORKERS,
}
# not part of the request
LEFT_OUT = frozenset({_NODE, _WORKERS})
NAMES = (*dict.fromkeys(PARTS.values()), OTHER)
_STORE_THREAD = "store-commit"


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    with ExitStack() as stack:
        nodes = [stack.enter_context(node(CHAIN_ID + number)) for number in range(CHAINS)]
        return uvloop.run(_measured(nodes, pool))


async def _measured(nodes: list[Node], pool: ProcessPoolExecutor) -> list[Figure]:
    chains = tuple(
        make_own_chain(item.url, chain_id=CHAIN_ID + number, name=f"Chain {number}")
        for number, item in enumerate(nodes)
    )
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as folder:
        solana = EmbeddedSolanaSettings(slot_s=0.4)
        async with run_service(Path(folder), chains=chains, solana=solana) as service:
            shop = _Shop(service, pool)
            relayer = service.app.rails[f"eip155:{CHAIN_ID}"].senders[0]
            for each_node in nodes:
                await asyncio.to_thread(each_node.fill, relayer)
            accounts = await _funded(service, nodes)
            await shop.ask(accounts, sized(100, 1))
            rounds = [await shop.measured_round(accounts) for _ in range(ROUNDS)]
    note = (
        f"{COUNT} payments, {CONNECTIONS} requests at a time; {ACCOUNTS} accounts on {CHAINS} EVM "
        "chains and Solana"
    )
    counted = [name for name in NAMES if name not in LEFT_OUT]
    totals = [sum(item[name] for name in counted) for item in rounds]
    total = median(totals)
    return [
        median_of("options_cpu", totals, "µs", note),
        *(
            median_of(
                f"options_cpu_{name}",
                [item[name] for item in rounds],
                "µs",
                f"{median(item[name] for item in rounds) / total:.0%}",
            )
            for name in counted
        ),
    ]


class _Shop:
    """A merchant whose buyers request options."""

    def __init__(self, service: FlorinService, pool: ProcessPoolExecutor) -> None:
        self._pool = pool
        env = service.home.read_demo_env()
        self._merchant = {
            "Api-Key": env["FLORIN_PARTNER_KEY"],
            "Merchant-Id": env["FLORIN_MERCHANT_ID"],
        }
        self._wallet = {
            "App-Id": env["FLORIN_APP_ID"],
            "Client-Id": env["FLORIN_CLIENT_ID"],
        }
        host, _, port = service.http_url.rpartition("/")[2].rpartition(":")
        self._address: Address = (host, int(port))

    async def measured_round(self, accounts: list[str]) -> dict[str, float]:
        """Return CPU microseconds per request, by part."""
        requests = await self._requests(accounts, COUNT)
        sampler = PartSampler(PARTS, BACKGROUND)
        with sampler.running():
            await self._answers(requests)
        used_s = sampler.used_s
        used_s[_STORE] += sampler.threads_s[_STORE_THREAD]
        return {name: used_s[name] / COUNT * 1e6 for name in NAMES}

    async def ask(self, accounts: list[str], count: int) -> None:
        """Request the options of new payments; raise RuntimeError if an account has none."""
        for body in await self._answers(await self._requests(accounts, count)):
            request = {option["account"] for option in orjson.loads(body)["options"]}
            if request != {*accounts}:
                raise RuntimeError(f"not all of {ACCOUNTS} accounts have options: {body!r}")

    async def _requests(self, accounts: list[str], count: int) -> tuple[bytes, ...]:
        content = {"amount": PRICE, "referenceId": "bench"}
        create = http1.request("POST", "/v1/payments", self._merchant, content)
        created = await self._answers((create,) * count)
        payments = [orjson.loads(body)["paymentId"] for body in created]
        return tuple(
            http1.request(
                "POST",
                f"/v1/gateway/payment/{payment}/options",
                self._wallet,
                {"accounts": accounts},
            )
            for payment in payments
        )

    async def _answers(self, requests: tuple[bytes, ...]) -> list[bytes]:
        job = RestJob(self._address, requests, CONNECTIONS, keep=True)
        return (await asyncio.to_thread(load.run, self._pool, job)).bodies


async def _funded(service: FlorinService, nodes: list[Node]) -> list[str]:
    """Return CAIP-10 accounts of two buyers with money on every chain."""
    wallets = [EvmTestWallet() for _ in range(WALLETS)]
    keys = [str(Keypair().pubkey()) for _ in range(WALLETS)]
    for each_node in nodes:
        each_node.fund([wallet.address for wallet in wallets])
    assert service.solana_chain is not None
    gift = {"jsonrpc": "2.0", "id": 1, "method": "florin_faucet", "params": [{"accounts": keys}]}
    await service.solana_chain.handle(orjson.dumps(gift))
    cluster = service.home.read_demo_env()["FLORIN_SOLANA_CHAIN"]
    return [
        *(
            f"eip155:{CHAIN_ID + number}:{wallet.address}"
            for number in range(CHAINS)
            for wallet in wallets
        ),
        *(f"{cluster}:{key}" for key in keys),
    ]
