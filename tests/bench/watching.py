"""Measure a service that watches 5,000 open addresses on a chain with a block every 0.2 seconds.

The chain makes its blocks in real time, and runs in this process, so that the service's processor
time has none of it. Deposits arrive in each second. The naive reader asks for the logs of one
address in one block at a time; its processor time is that of as many calls as there was time for.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from typing import Any

import orjson
from florin_sandbox.devnet.evm import DEVNET, EvmDevChain, EvmDevSettings
from florin_server.base.clock import SystemClock
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpcClient
from florin_server.rails.evm.reading.deposit_logs import TRANSFER_TOPIC
from florin_server.rails.evm.sending.fees import TransactionFees
from florin_server.rails.evm.sending.transactions import EvmSigner

from tests.bench import http1, load
from tests.bench.finality import ask, fund_coin
from tests.bench.florin import Florin, florin
from tests.bench.load import RestJob
from tests.bench.report import Figure
from tests.bench.setup import new_payments
from tests.bench.size import sized
from tests.support.own_chain import CHAIN, CHAIN_ID, make_own_chain
from tests.support.payment_addresses import encode_transfer

BLOCK_S, FINAL_AFTER_S = 0.2, 10
COUNT, SECONDS, DEPOSITS_PER_S, NAIVE_CALLS = sized((5_000, 20.0, 2, 500), (20, 2.0, 2, 20))
# addresses that are opened at once; each takes some calls of the chain
_PART = 500
_CALLS_LEAST = sized(100, 1)
_GWEI = 10**9
_COIN = hex(10**21)
# of the sender of deposits, which is in this process
_OWN_CALLS = frozenset({"eth_sendRawTransaction", "eth_getTransactionCount", "florin_faucet"})
_STRANGER = EvmSigner(b"\x91" * 32)


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    return asyncio.run(_measure(pool))


async def _measure(pool: ProcessPoolExecutor) -> list[Figure]:
    settings = EvmDevSettings(chain_id=CHAIN_ID, block_interval_s=BLOCK_S, clock=SystemClock())
    chain = await EvmDevChain.open(None, settings)
    calls = _CallCounter(chain)
    try:
        with ExitStack() as stack:
            url = f"http://127.0.0.1:{await chain.serve_http()}"
            await fund_coin(chain, [_STRANGER.address], _COIN)
            running = await asyncio.to_thread(stack.enter_context, florin(**_settings(url)))
            try:
                relayer = EvmSigner(running.home.get_or_create_secrets().relayer_key)
                await fund_coin(chain, [relayer.address], _COIN)
                idle = await _observe(running, calls)
                addresses = await _open_addresses(running, pool)
                deposits = asyncio.create_task(_deposit(chain, addresses))
                try:
                    watched = await _observe(running, calls)
                finally:
                    deposits.cancel()
                    sent = await deposits
                naive_ms = await asyncio.wrap_future(pool.submit(_ask_naively, url, addresses))
            finally:
                await asyncio.to_thread(stack.close)
    finally:
        await chain.close()
    naive_calls = COUNT / BLOCK_S
    methods = ", ".join(f"{count:.1f} {name}" for name, count in watched.calls.most_common(4))
    note = (
        f"{COUNT:,} addresses, blocks of {BLOCK_S} s, {sent} deposits in {SECONDS:g} s; a second "
        f"has {methods}"
    )
    return [
        Figure("watching_calls", watched.calls_per_s, "/s", note),
        Figure(
            "watching_naive_calls",
            naive_calls / watched.calls_per_s,
            "×",
            f"{naive_calls:,.0f} calls/s, compared with those of the service",
            peer="a query per address and block",
            at_least=_CALLS_LEAST,
        ),
        Figure(
            "watching_cpu",
            watched.cpu_ms_per_s,
            "ms/s",
            f"processor time of the whole service: {watched.cpu_ms_per_s / 10:.1f} % of a core; "
            f"{idle.cpu_ms_per_s:.0f} ms/s and {idle.calls_per_s:.1f} calls/s without addresses",
            at_most=200,
        ),
        Figure(
            "watching_naive_cpu",
            naive_ms * naive_calls / watched.cpu_ms_per_s,
            "×",
            f"{naive_ms:.2f} ms a call, which is {naive_ms * naive_calls / 1_000:.1f} cores, "
            "compared with the service",
            peer="a query per address and block",
        ),
    ]


class _CallCounter:
    """Counts the calls that a chain answers over HTTP, by method."""

    def __init__(self, chain: EvmDevChain) -> None:
        self.counts: Counter[str] = Counter()
        self._handle = chain.handle
        chain.handle = self._count  # type: ignore[method-assign]

    async def _count(self, payload: bytes) -> bytes:
        content = orjson.loads(payload)
        questions = content if isinstance(content, list) else [content]
        self.counts.update(question["method"] for question in questions)
        return await self._handle(payload)


class _Use:
    """The calls of a second by method, and the milliseconds of processor time in it."""

    def __init__(self, calls: Counter[str], seconds: float, cpu_s: float) -> None:
        self.calls: Counter[str] = Counter()
        for name, count in calls.items():
            if name not in _OWN_CALLS:
                self.calls[name] = count / seconds  # type: ignore[assignment]
        self.calls_per_s = sum(self.calls.values())
        self.cpu_ms_per_s = 1e3 * cpu_s / seconds


async def _observe(running: Florin, calls: _CallCounter) -> _Use:
    """Return what the service uses while nothing is asked of it."""
    calls.counts.clear()
    before_s, started = running.cpu_s(), time.monotonic()
    await asyncio.sleep(SECONDS)
    cpu_s, seconds = running.used_s(before_s), time.monotonic() - started
    return _Use(Counter(calls.counts), seconds, cpu_s)


async def _open_addresses(running: Florin, pool: ProcessPoolExecutor) -> list[str]:
    payments = await asyncio.to_thread(new_payments, running, pool, COUNT)
    asset = {"assets": [f"{CHAIN}/erc20:{DEVNET.token.address}"]}
    requests = tuple(
        http1.request("POST", f"/v1/gateway/payment/{payment}/addresses", running.wallet, asset)
        for payment in payments
    )
    bodies: list[bytes] = []
    for start in range(0, COUNT, _PART):
        part = requests[start : start + _PART]
        job = RestJob(running.http, part, connections=8, expect=b'"address"', keep=True)
        bodies += (await asyncio.to_thread(load.run, pool, job)).bodies
    return [orjson.loads(body)["addresses"][0]["address"] for body in bodies]


async def _deposit(chain: EvmDevChain, addresses: list[str]) -> int:
    """Send a part of the price to one address after the other; return how many, once canceled."""
    await ask(chain, "florin_faucet", {"accounts": [_STRANGER.address], "nativeWei": "0x0"})
    nonce = int(await ask(chain, "eth_getTransactionCount", _STRANGER.address, "latest"), 16)
    sent = 0
    try:
        while True:
            signed = _STRANGER.sign_call(
                chain_id=CHAIN_ID,
                nonce=nonce + sent,
                fees=TransactionFees(max_fee=100 * _GWEI, tip=_GWEI),
                gas=200_000,
                to=DEVNET.token.address,
                data=encode_transfer(addresses[sent % len(addresses)], 1_000),
            )
            await ask(chain, "eth_sendRawTransaction", "0x" + signed.raw.hex())
            sent += 1
            await asyncio.sleep(1 / DEPOSITS_PER_S)
    except asyncio.CancelledError:
        return sent


def _ask_naively(url: str, addresses: list[str]) -> float:
    """Return the milliseconds of processor time for a query of one address in one block."""
    return asyncio.run(_ask_each(url, addresses))


async def _ask_each(url: str, addresses: list[str]) -> float:
    rpc = JsonRpcClient(HttpTransport(url))
    head = int(await rpc.call("eth_blockNumber"), 16)
    try:
        before_s = time.process_time()
        for number in range(NAIVE_CALLS):
            topic = "0x" + addresses[number % len(addresses)][2:].lower().rjust(64, "0")
            query: dict[str, Any] = {"fromBlock": hex(head), "toBlock": hex(head)}
            query["topics"] = [TRANSFER_TOPIC, None, topic]
            await rpc.call("eth_getLogs", query)
        return 1e3 * (time.process_time() - before_s) / NAIVE_CALLS
    finally:
        await rpc.close()


def _settings(url: str) -> dict[str, str]:
    chain = make_own_chain(
        url,
        confirmations=5,
        poll_ms=1_000,
        final_after_s=FINAL_AFTER_S,
        treasury="0x" + "fe" * 20,
        forwarder={"address": DEVNET.forwarder},
    )
    return {
        "FLORIN_CHAINS": json.dumps([chain.model_dump(mode="json", exclude_unset=True)]),
        "FLORIN_EMBEDDED_SOLANA__ENABLED": "false",
    }
