"""Compare verifying and settling with the x402 facilitator, on the same chain in the same run.

The facilitator is the PyPI package, in its own environment and process, called without HTTP. Its
payments are plain EIP-3009 transfers of the same token, one per transaction. The service accepts
payments over REST, settles through its own contract, and records everything.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import Timer
from typing import Any

import uvloop
from eth_account import Account
from eth_utils import to_checksum_address
from florin_sandbox.devnet.evm import DEVNET
from florin_server.rails.evm.sending.transactions import EvmSigner

from tests.bench import verify
from tests.bench.florin import Florin
from tests.bench.node import CHAIN_ID, Node, nodes
from tests.bench.payments import settle
from tests.bench.report import Figure, median_of
from tests.bench.settle import prepared, shop
from tests.bench.size import sized
from tests.bench.verify import Pace
from tests.bench.x402 import environment
from tests.support.evm_harness import MERCHANT, PRICE

ROUNDS, VERIFIED, SETTLED = sized((3, 200, 100), (1, 2, 2))
THREADS = sized(8, 1)
TOGETHER = 50
_PEER = Path(__file__).with_name("x402") / "peer.py"
# the facilitator accepts only this form
_MERCHANT = to_checksum_address(MERCHANT)
_KEY = b"\x1d" * 32
_TYPE = {
    "TransferWithAuthorization": [
        {"name": "from", "type": "address"},
        {"name": "to", "type": "address"},
        {"name": "value", "type": "uint256"},
        {"name": "validAfter", "type": "uint256"},
        {"name": "validBefore", "type": "uint256"},
        {"name": "nonce", "type": "bytes32"},
    ]
}


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    # anvil if Node is installed: its own pace is the smallest limit
    *_, (where, item) = nodes()
    with item as chain, _facilitator(chain) as other:
        chain.fill(EvmSigner(_KEY).address)
        on = "anvil" if where else "the embedded chain"
        figures = uvloop.run(_verified(chain, other, where, on))
        return [*figures, *_settled(chain, other, pool, on)]


class Facilitator:
    """The facilitator as a process that answers line by line."""

    def __init__(self, process: subprocess.Popen[str], patience_s: float = 120) -> None:
        self._process, self._patience_s = process, patience_s

    def does(self, what: str, payloads: Sequence[dict[str, Any]], threads: int) -> Pace:
        """Verify or settle all; raise RuntimeError if one is refused."""
        request = {"do": what, "threads": threads, "payloads": payloads}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # a process that never answers is killed, which ends its output
        late = Timer(self._patience_s, self._process.kill)
        late.start()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            late.cancel()
        if not line:
            raise RuntimeError(f"the facilitator ended with {self._process.wait()}")
        result = json.loads(line)
        if result["refused"]:
            raise RuntimeError(f"the facilitator refused a payment: {result['refused'][0]}")
        count = len(payloads)
        return Pace(count / result["seconds"], result["cpu_s"] / count * 1e3)


@contextmanager
def _facilitator(chain: Node) -> Iterator[Facilitator]:
    # bypasses the counter of calls, which the service's own calls pass
    result = (chain.direct, "0x" + _KEY.hex(), f"eip155:{CHAIN_ID}")
    python = environment.python()
    if isinstance(python, str):
        raise RuntimeError(python)
    command = [str(python), str(_PEER), *result]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Facilitator(process)
        finally:
            process.terminate()


async def _verified(chain: Node, other: Facilitator, where: str, on: str) -> list[Figure]:
    payloads = _payloads(chain, VERIFIED)
    many, single = [], []
    async with verify.opened(where, chain, VERIFIED) as (rail, items):
        for _ in range(-1, ROUNDS):  # the first round warms up
            threads, theirs = [
                await asyncio.to_thread(other.does, "verify", payloads, n) for n in (THREADS, 1)
            ]
            best = max(threads, theirs, key=lambda pace: pace.rate)
            many.append((await verify.together(rail, items), best))
            single.append((await verify.alone(rail, items), theirs))
    note = f"{verify.CONCURRENCY} at once against the better of {THREADS} threads and one, {on}"
    return [
        _against("verify_vs_x402", many[1:], note),
        _against("verify_alone_vs_x402", single[1:], f"one after the other, {on}"),
    ]


def _settled(chain: Node, other: Facilitator, pool: ProcessPoolExecutor, on: str) -> list[Figure]:
    figures = []
    for together, name in ((1, "single"), (TOGETHER, "batched")):
        rounds = []
        with shop(chain, together) as running:
            for _ in range(-1, ROUNDS):
                ours = _pace(chain, running, pool)
                payloads = _payloads(chain, SETTLED)
                rounds.append((ours, other.does("settle", payloads, THREADS)))
        note = (
            f"{SETTLED} payments, at most {together} in a transaction, against {THREADS} threads "
            f"that settle one in each, {on}"
        )
        figures.append(_against(f"settle_{name}_vs_x402", rounds[1:], note))
    return figures


def _pace(chain: Node, running: Florin, pool: ProcessPoolExecutor) -> Pace:
    confirms = prepared(chain, running, pool, SETTLED)
    before = running.cpu_s()
    rate = settle(running, pool, confirms)
    return Pace(rate, running.used_s(before) / SETTLED * 1e3)


def _against(name: str, rounds: Sequence[tuple[Pace, Pace]], note: str) -> Figure:
    ratios = [ours.rate / theirs.rate for ours, theirs in rounds]
    rates, cpus = (
        [median(getattr(item[side], what) for item in rounds) for side in range(2)]
        for what in ("rate", "cpu_ms")
    )
    output = (
        f"by wall clock, {rates[0]:,.0f}/s and {rates[1]:,.0f}/s; {cpus[0]:.2f} ms and "
        f"{cpus[1]:.2f} ms CPU each; {note}"
    )
    return median_of(name, ratios, "×", output, cpu_us=cpus[0] * 1e3, peer="x402 facilitator")


def _payloads(chain: Node, count: int) -> list[dict[str, Any]]:
    """Return signed transfers of funded buyers in the facilitator's format."""
    buyers = [Account.create() for _ in range(count)]
    chain.fund([each_buyer.address for each_buyer in buyers])
    token = DEVNET.token
    required = {
        "scheme": "exact",
        "network": f"eip155:{CHAIN_ID}",
        "asset": token.address,
        "amount": str(PRICE),
        "payTo": _MERCHANT,
        "maxTimeoutSeconds": 3600,
        "extra": {"name": token.name, "version": token.version},
    }
    domain = {
        "name": token.name,
        "version": token.version,
        "chainId": CHAIN_ID,
        "verifyingContract": token.address,
    }
    before = int(time.time()) + 3600
    payloads = []
    for buyer in buyers:
        result = {"from": buyer.address, "to": _MERCHANT, "value": PRICE}
        result |= {"validAfter": 0, "validBefore": before, "nonce": "0x" + os.urandom(32).hex()}
        signed = buyer.sign_typed_data(domain, _TYPE, result)
        authorization = {name: str(value) for name, value in result.items()}
        content = {"signature": "0x" + signed.signature.hex(), "authorization": authorization}
        payloads.append({"x402Version": 2, "payload": content, "accepted": required})
    return payloads
