"""Measure reading balances from a chain, by accounts, tokens and read strategy.

Each size is read with every strategy in turn, so that all have the same conditions. As usual
libraries do, another run asks one question after another. The tokens are separate contracts.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress

import pytest
from eth_account import Account
from florin_sandbox.devnet.evm import DEVNET, EvmDevChain, EvmDevSettings
from florin_sandbox.devnet.genesis import load_artifact
from florin_server.base.clock import SystemClock
from florin_server.rails.connection.jsonrpc import (
    HttpTransport,
    JsonRpcClient,
    LocalTransport,
    RpcTransport,
)
from florin_server.rails.evm.paying.payable import build_sample, list_payable
from florin_server.rails.evm.reading.node import EvmNode
from florin_server.rails.evm.reading.reader import STRATEGY_NAMES, EvmReader, list_strategies
from florin_server.rails.evm.reading.reads import ContractAnswer, ContractQuestion, read_batch
from florin_server.rails.evm.setup.discovery import build_token_asset
from florin_server.rails.types import Asset

from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support import anvil
from tests.support.evm_harness import CHAIN, make_asset, make_chain_settings

SIZES = sized(((1, 2), (3, 10), (10, 20)), ((1, 2),))
TOKENS = max(count for _, count in SIZES)
ROUNDS = sized({"devchain": 5, "anvil": 15}, {"devchain": 1, "anvil": 1})
ALONE = "one by one"
_GAS = 3_000_000


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    figures = asyncio.run(_embedded())
    # without Node there is no anvil, and it is left out
    with suppress(pytest.skip.Exception), anvil.run_anvil() as other:
        other.ask("anvil_setBalance", DEVNET.faucet, hex(10**21))
        figures += asyncio.run(_measured("anvil", HttpTransport(other.url)))
    return figures


async def _embedded() -> list[Figure]:
    chain = await EvmDevChain.open(None, EvmDevSettings(clock=SystemClock()))
    try:
        return await _measured("devchain", LocalTransport(chain.handle))
    finally:
        await chain.close()


async def _measured(name: str, transport: RpcTransport) -> list[Figure]:
    rpc = JsonRpcClient(transport)
    try:
        tokens = await _tokens(rpc)
        multicall = await _deploy(rpc, load_artifact("TestMulticall").init)
        figures = []
        for accounts, count in SIZES:
            figures += await _size(name, rpc, multicall, accounts, tokens[:count])
        return figures
    finally:
        await rpc.close()


async def _size(
    name: str, rpc: JsonRpcClient, multicall: str, accounts: int, tokens: Sequence[Asset]
) -> list[Figure]:
    node, chain = EvmNode(rpc), make_chain_settings()
    payers = [f"{CHAIN}:0x{number:040x}" for number in range(1000, 1000 + accounts)]
    prices = {token.id: 0 for token in tokens}
    strategies = list_strategies(multicall)
    readers: dict[str, EvmReader] = {
        way: EvmReader(node, name, strategies, strategy=way) for way in STRATEGY_NAMES
    }
    readers[ALONE] = _OneByOne(node, name, strategies)
    took: dict[str, list[float]] = {way: [] for way in readers}
    request: dict[str, tuple[int, int]] = {}
    for _ in range(ROUNDS[name]):
        for way, reader in readers.items():
            before = rpc.call_count, rpc.request_count
            started = time.perf_counter()
            payables = await list_payable(reader, chain, payers, tokens, prices)
            took[way].append(time.perf_counter() - started)
            request[way] = rpc.call_count - before[0], rpc.request_count - before[1]
            if len(payables) != accounts * len(tokens):
                raise RuntimeError(f"{way}: {len(payables)} balances were read")
    chosen = EvmReader(node, name, strategies)
    await chosen.probe(build_sample(chain, tokens))
    alone = statistics.median(took.pop(ALONE))
    figures = []
    for way, times in took.items():
        p50 = statistics.median(times)
        calls, requests = request[way]
        note = f"p50; {calls} calls in {requests}; {alone / p50:.1f} times as fast as one by one"
        if way == chosen.strategy_order[0]:
            note += "; the way that is chosen"
        title = f"options_{name}_{accounts}x{len(tokens)}_{way}"
        figures.append(Figure(title, p50 * 1000, "ms", note))
    best = min(statistics.median(times) for times in took.values())
    title = f"options_{name}_{accounts}x{len(tokens)}_times"
    note = f"the best way against one by one, which takes {alone * 1000:.1f} ms"
    figures.append(Figure(title, alone / best, "x", note, at_least=1))
    return figures


class _OneByOne(EvmReader):
    """A reader that asks each question after the previous answer."""

    async def read(self, questions: Sequence[ContractQuestion]) -> list[ContractAnswer]:
        results: list[ContractAnswer] = []
        existing: set[bytes] = set()
        for question in questions:
            # no account here has code, so one check of each is enough
            if question.owner in existing:
                results.append(None)
                continue
            if question.owner is not None:
                existing.add(question.owner)
            results += await read_batch(self._node, [question])
        return results


async def _tokens(rpc: JsonRpcClient) -> list[Asset]:
    owner = bytes.fromhex(DEVNET.faucet[2:]).rjust(32, b"\0")
    code = load_artifact("TestDollar").init + owner
    return [
        build_token_asset(make_chain_settings(), make_asset(await _deploy(rpc, code)))
        for _ in range(TOKENS)
    ]


async def _deploy(rpc: JsonRpcClient, code: bytes) -> str:
    """Deploy a contract; return its address."""
    nonce = await rpc.call("eth_getTransactionCount", DEVNET.faucet, "pending")
    transaction = {
        "chainId": DEVNET.chain_id,
        "nonce": int(nonce, 16),
        "gas": _GAS,
        "maxFeePerGas": 10**11,
        "maxPriorityFeePerGas": 10**9,
        "value": 0,
        "data": code,
    }
    raw = Account.sign_transaction(transaction, DEVNET.faucet_key).raw_transaction
    tx_hash = await rpc.call("eth_sendRawTransaction", "0x" + bytes(raw).hex())
    # one of the nodes seals its block a moment after its answer
    for _ in range(1000):
        receipt = await rpc.call("eth_getTransactionReceipt", tx_hash)
        if receipt is not None:
            break
        await asyncio.sleep(0.01)
    if receipt["status"] != "0x1":
        raise RuntimeError("a contract could not be created")
    return str(receipt["contractAddress"]).lower()
