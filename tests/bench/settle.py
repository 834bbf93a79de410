"""Measure settling on a chain in another process: one payment per transaction, and many.

The chains are the embedded one, whose pace Python limits, and anvil, on which the service is the
limit.

Figures of the service are its processor time and its calls. The chain alone gets signed
transactions that settle as many payments each.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm.signatures import derive_address
from florin_server.rails.evm.sending.transactions import EvmSigner

from tests.bench import http1, load
from tests.bench.chain import settlement
from tests.bench.florin import Florin, florin
from tests.bench.load import RestJob
from tests.bench.node import CHAIN_ID, Node, nodes
from tests.bench.payments import prepare, settle
from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support.wallet import EvmTestWallet

COUNT, WARM = sized((300, 100), (3, 1))
BATCHES = sized(((1, "single"), (50, "batched")), ((50, "batched"),))
# concurrent transactions, ordered enough for a chain that keeps early ones
_PUSHES = 8
_TREASURY = "0x" + "fe" * 20
_RELAYER = EvmSigner(b"\x1e" * 32)


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    figures = []
    for together, name in BATCHES:
        for where, item in nodes():
            with item as chain, shop(chain, together) as running:
                figures += _measured(chain, running, pool, together, name + where)
    return figures


@contextmanager
def shop(chain: Node, together: int, *command: str, **more: str) -> Iterator[Florin]:
    """Run the service in front of a chain in another process, with coin for gas."""
    token = DEVNET.token
    asset = {
        "address": token.address,
        "name": token.name,
        "symbol": token.symbol,
        "decimals": token.decimals,
        "peg": token.peg,
    }
    result = {
        "chain_id": CHAIN_ID,
        "name": "Elsewhere",
        "rpc_url": chain.url,
        "poll_ms": 25,
        "settler": DEVNET.settler,
        "treasury": _TREASURY,
        "assets": [asset],
    }
    chosen = {
        "FLORIN_CHAINS": json.dumps([result]),
        "FLORIN_SETTLE_BATCH": str(together),
        "FLORIN_EMBEDDED_SOLANA__ENABLED": "false",
        **more,
    }
    with florin(*command, **chosen) as running:
        chain.fill(EvmSigner(running.home.get_or_create_secrets().relayer_key).address)
        yield running


def _measured(
    chain: Node, running: Florin, pool: ProcessPoolExecutor, together: int, name: str
) -> list[Figure]:
    settle(running, pool, prepared(chain, running, pool, WARM))
    confirms = prepared(chain, running, pool, COUNT)
    request, cpu_s, chain_s = chain.counts(), running.cpu_s(), chain.cpu_s()
    rate = settle(running, pool, confirms)
    own_ms = (running.cpu_s() - cpu_s) / COUNT * 1e3
    chain_ms = (chain.cpu_s() - chain_s) / COUNT * 1e3
    calls = chain.counts() - request
    requests = calls.pop("requests")
    pushed = _push(chain, pool, together)
    note = (
        f"{COUNT} payments confirmed and settled, at most {together} in a transaction, a block for "
        f"each transaction; the chain {chain_ms:.1f} ms CPU each"
    )
    against = (
        f"the chain alone settles {pushed:,.0f} payments/s, {together} in each transaction; it "
        "also answers what the service asks before it takes a payment"
    )
    counted = ", ".join(f"{method} {n / COUNT:.2f}" for method, n in calls.most_common())
    per_payment = f"in {requests / COUNT:.2f} requests: {counted}"
    return [
        Figure(f"settle_{name}_per_s", rate, "/s", note),
        Figure(f"settle_{name}_vs_chain", rate / pushed, "×", against, peer="chain alone"),
        Figure(
            f"settle_{name}_cpu_ms",
            own_ms,
            "ms",
            "of the service alone, for each payment",
            cpu_us=own_ms * 1e3,
        ),
        Figure(f"settle_{name}_rpc_calls", calls.total() / COUNT, "calls", per_payment),
    ]


def prepared(
    chain: Node, running: Florin, pool: ProcessPoolExecutor, count: int
) -> list[tuple[str, bytes]]:
    """Prepare payments of as many buyers for their confirms."""
    wallets = [EvmTestWallet(f"eip155:{CHAIN_ID}") for _ in range(count)]
    chain.fund([wallet.address for wallet in wallets])
    return prepare(running, pool, wallets)


def _push(chain: Node, pool: ProcessPoolExecutor, together: int) -> float:
    """Return payments a second that the chain settles from signed transactions."""
    keys = [os.urandom(32) for _ in range(COUNT)]
    payers = [(key, derive_address(key)) for key in keys]
    chain.fund([address for _, address in payers])
    chain.fill(_RELAYER.address)
    raws = [
        settlement(_RELAYER, nonce, payers[start : start + together], CHAIN_ID)
        for nonce, start in enumerate(range(0, COUNT, together))
    ]
    requests = tuple(
        http1.request("POST", "/", {}, _question("eth_sendRawTransaction", "0x" + raw.hex()))
        for raw in raws
    )
    started = time.perf_counter()
    load.run(pool, RestJob(chain.address, requests, _PUSHES, expect=b'"result"'))
    _mined(chain, len(raws))
    return COUNT / (time.perf_counter() - started)


def _mined(chain: Node, count: int) -> None:
    """Return once all pushed transactions are in blocks."""
    end = time.monotonic() + load.PATIENCE_S
    while int(chain.ask("eth_getTransactionCount", _RELAYER.address, "latest"), 16) < count:
        if time.monotonic() > end:
            raise RuntimeError("the chain did not settle what it was sent")


def _question(method: str, *params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
