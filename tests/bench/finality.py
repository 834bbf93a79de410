"""Measure how soon a payment succeeds once its block is final, with the profile of Base.

The service polls a chain with a block every 0.2 seconds, as it polls a node without WebSockets. The
chain runs in this process, which is notified of each block.
"""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from typing import Any

import orjson
from florin_sandbox.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.base.clock import SystemClock
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.networks.registry import find_network

from tests.bench import http1, load
from tests.bench.florin import Florin, florin
from tests.bench.http1 import HttpConnection
from tests.bench.load import percentile
from tests.bench.payments import prepare
from tests.bench.report import Figure
from tests.bench.size import sized
from tests.bench.streams import Streams
from tests.support.api import grpc_metadata
from tests.support.own_chain import CHAIN, CHAIN_ID, make_own_chain
from tests.support.wallet import EvmTestWallet

BLOCK_S = 0.2
FINAL_AFTER_S, COUNT, WARM_S = sized((10, 30, 12.0), (1, 2, 0.0))
# no multiple of the block time, so confirms come at any moment of a block
STAGGER_S = 0.37
OVERHEAD_MS_MAX = 100
LOOKS, LOOK_S = 50, 0.2
_COIN = hex(10**21)


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    return asyncio.run(_measured(pool))


async def _measured(pool: ProcessPoolExecutor) -> list[Figure]:
    settings = EvmDevSettings(chain_id=CHAIN_ID, block_interval_s=BLOCK_S, clock=SystemClock())
    chain = await EvmDevChain.open(None, settings)
    try:
        with ExitStack() as stack:
            port = await chain.serve_http()
            blocks = _Blocks(chain)
            # it starts while the chain answers
            running = await asyncio.to_thread(
                stack.enter_context, florin(**_settings(f"http://127.0.0.1:{port}"))
            )
            try:
                await fund_coin(
                    chain,
                    [EvmSigner(running.home.get_or_create_secrets().relayer_key).address],
                    _COIN,
                )
                # meanwhile the service measures the pace of blocks
                await asyncio.sleep(WARM_S)
                overheads_ms, accepted_s = await _paid(chain, blocks, running, pool)
            finally:
                await asyncio.to_thread(stack.close)
    finally:
        await chain.close()
    note = (
        f"p50 of {COUNT} payments, confirmed every {STAGGER_S} s; blocks of {BLOCK_S} s, final "
        f"after {FINAL_AFTER_S} s; confirm to succeeded takes {percentile(accepted_s, 50):.2f} s"
    )
    median_ms = percentile(overheads_ms, 50)
    return [
        Figure("finality_overhead_ms", median_ms, "ms", note, at_most=OVERHEAD_MS_MAX),
        Figure("finality_overhead_p90_ms", percentile(overheads_ms, 90), "ms", "of the same"),
    ]


def _settings(url: str) -> dict[str, str]:
    base = find_network("eip155:8453")
    assert base is not None
    chain = make_own_chain(
        url,
        confirmations=base.pace.confirmations,
        poll_ms=base.pace.poll_ms,
        eta_s=base.pace.eta_s,
        final_after_s=FINAL_AFTER_S,
    )
    return {
        "FLORIN_CHAINS": json.dumps([chain.model_dump(mode="json", exclude_unset=True)]),
        "FLORIN_EMBEDDED_SOLANA__ENABLED": "false",
    }


class _Blocks:
    """The time of each block of the chain, in monotonic seconds, with its Unix time."""

    def __init__(self, chain: EvmDevChain) -> None:
        self._chain = chain
        self._asking: set[asyncio.Task[None]] = set()
        self._noted = asyncio.Event()
        self.block_times: dict[int, tuple[float, int]] = {}
        chain.add_listener(self._heard)

    def _heard(self) -> None:
        task = asyncio.ensure_future(self._note(time.monotonic()))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _note(self, at: float) -> None:
        block = await ask(self._chain, "eth_getBlockByNumber", "latest", False)
        self.block_times.setdefault(int(block["number"], 16), (at, int(block["timestamp"], 16)))
        self._noted.set()

    async def final_at(self, number: int) -> float:
        """Return when a block became final by the rule: after blocks worth enough seconds on top of
        it.

        Wait until the block that made it final is recorded. A block can come some milliseconds
        early; timestamps are whole seconds.
        """
        made_at, made_s = await self._noted_block(number)
        after_s = FINAL_AFTER_S - BLOCK_S / 2
        async with asyncio.timeout(load.PATIENCE_S):
            while True:
                self._noted.clear()
                times = [
                    at
                    for at, time_s in self.block_times.values()
                    if at - made_at >= after_s and time_s - made_s >= FINAL_AFTER_S
                ]
                if times:
                    return min(times)
                await self._noted.wait()

    async def _noted_block(self, number: int) -> tuple[float, int]:
        async with asyncio.timeout(load.PATIENCE_S):
            while number not in self.block_times:
                self._noted.clear()
                await self._noted.wait()
        return self.block_times[number]


async def _wait_until_offered(
    running: Florin, pool: ProcessPoolExecutor, wallet: EvmTestWallet
) -> None:
    """Return once options are offered: the service checks its relayer's coin each second."""
    for attempt in range(LOOKS, 0, -1):
        try:
            await asyncio.to_thread(prepare, running, pool, [wallet])
        except RuntimeError:
            if attempt == 1:
                raise
            await asyncio.sleep(LOOK_S)
        else:
            return


async def _paid(
    chain: EvmDevChain, blocks: _Blocks, running: Florin, pool: ProcessPoolExecutor
) -> tuple[list[float], list[float]]:
    """Return milliseconds from final to succeeded, and seconds from accepted to succeeded."""
    wallets = [EvmTestWallet(CHAIN) for _ in range(COUNT)]
    await fund_coin(chain, [wallet.address for wallet in wallets], "0x0")
    await _wait_until_offered(running, pool, wallets[0])
    prepared = await asyncio.to_thread(prepare, running, pool, wallets)
    result: dict[str, list[float]] = {payment: [] for payment, _ in prepared}
    streams = Streams(
        grpc_metadata(running.wallet), lambda payment: result[payment].append(time.monotonic())
    )
    await streams.open(running.grpc, list(result), 1)
    accepted = {}
    for payment, confirm in prepared:
        await _answer(running, confirm)
        accepted[payment] = time.monotonic()
        await asyncio.sleep(STAGGER_S)
    hashes = {payment: await _succeeded(running, payment) for payment in result}
    overheads_ms, accepted_s = [], []
    for payment, tx_hash in hashes.items():
        times = result[payment]
        receipt = await ask(chain, "eth_getTransactionReceipt", tx_hash)
        final_at = await blocks.final_at(int(receipt["blockNumber"], 16))
        overheads_ms.append((times[-1] - final_at) * 1e3)
        accepted_s.append(times[-1] - accepted[payment])
    streams.close()
    return overheads_ms, accepted_s


async def _succeeded(running: Florin, payment: str) -> str:
    """Return the hash of the paying transaction, once the payment has succeeded."""
    path = f"/v1/gateway/payment/{payment}/status?maxPollMs=25000"
    poll = http1.request("GET", path, running.wallet)
    async with asyncio.timeout(load.PATIENCE_S):
        while True:
            answer = orjson.loads(await _answer(running, poll))
            if answer["isFinal"]:
                break
    if answer["status"] != "succeeded":
        raise RuntimeError(f"{payment} is {answer['status']}")
    return str(answer["info"]["txId"]).rpartition(":")[2]


async def _answer(running: Florin, request: bytes) -> bytes:
    """Return the body of one answer."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[bytes, bytes]] = loop.create_future()

    def answered(_connection: HttpConnection, status: bytes, body: bytes) -> None:
        if not done.done():
            done.set_result((status, body))

    _, connection = await loop.create_connection(lambda: HttpConnection(answered), *running.http)
    connection.ask(request)
    status, body = await done
    connection.close()
    if status != b"200":
        raise RuntimeError(f"answered with {status!r}: {body!r}")
    return body


async def fund_coin(chain: EvmDevChain, accounts: list[str], coin: str) -> None:
    gift = {"accounts": accounts, "nativeWei": coin}
    await ask(chain, "florin_faucet", gift)


async def ask(chain: EvmDevChain, method: str, *params: Any) -> Any:
    question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = orjson.loads(await chain.handle(orjson.dumps(question)))
    if "error" in answer:
        raise RuntimeError(f"the chain refused {method}: {answer['error']}")
    return answer["result"]
