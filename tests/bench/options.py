"""What asking a chain for balances takes, by accounts and tokens and the way it is asked.

Each size is asked in every way in turns, so that all of them meet the same machine; beside them one
question after the other, as usual libraries do. The tokens are contracts of their own.
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
from florin_server.clock import SystemClock
from florin_server.devnet.evm import DEVNET, EvmDevChain, EvmDevSettings
from florin_server.devnet.genesis import artifact
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpc, LocalTransport, Transport
from florin_server.rails.evm.paying.payable import means, sample
from florin_server.rails.evm.reading.node import Node
from florin_server.rails.evm.reading.reader import WAYS, Reader, ways
from florin_server.rails.evm.reading.reads import Answer, Question, batch
from florin_server.rails.evm.setup.discovery import asset_of
from florin_server.rails.types import Asset

from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support import anvil
from tests.support.evm_lab import CHAIN, asset, settings

SIZES = sized(((1, 2), (3, 10), (10, 20)), ((1, 2),))
TOKENS = max(count for _, count in SIZES)
ROUNDS = sized({"devchain": 5, "anvil": 15}, {"devchain": 1, "anvil": 1})
ALONE = "one by one"
_GAS = 3_000_000


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    figures = asyncio.run(_embedded())
    # without Node there is none, and nothing is told about it
    with suppress(pytest.skip.Exception), anvil.running() as other:
        other.ask("anvil_setBalance", DEVNET.faucet, hex(10**21))
        figures += asyncio.run(_measured("anvil", HttpTransport(other.url)))
    return figures


async def _embedded() -> list[Figure]:
    chain = await EvmDevChain.open(None, EvmDevSettings(clock=SystemClock()))
    try:
        return await _measured("devchain", LocalTransport(chain.handle))
    finally:
        await chain.close()


async def _measured(name: str, transport: Transport) -> list[Figure]:
    rpc = JsonRpc(transport)
    try:
        tokens = await _tokens(rpc)
        multicall = await _deploy(rpc, artifact("TestMulticall").bytecode)
        figures = []
        for accounts, count in SIZES:
            figures += await _size(name, rpc, multicall, accounts, tokens[:count])
        return figures
    finally:
        await rpc.close()


async def _size(
    name: str, rpc: JsonRpc, multicall: str, accounts: int, tokens: Sequence[Asset]
) -> list[Figure]:
    node, chain = Node(rpc), settings()
    payers = [f"{CHAIN}:0x{number:040x}" for number in range(1000, 1000 + accounts)]
    prices = {token.id: 0 for token in tokens}
    known = ways(multicall)
    readers: dict[str, Reader] = {way: Reader(node, name, known, way=way) for way in WAYS}
    readers[ALONE] = _OneByOne(node, name, known)
    took: dict[str, list[float]] = {way: [] for way in readers}
    asked: dict[str, tuple[int, int]] = {}
    for _ in range(ROUNDS[name]):
        for way, reader in readers.items():
            before = rpc.calls, rpc.requests
            started = time.perf_counter()
            found = await means(reader, chain, payers, tokens, prices)
            took[way].append(time.perf_counter() - started)
            asked[way] = rpc.calls - before[0], rpc.requests - before[1]
            if len(found) != accounts * len(tokens):
                raise RuntimeError(f"{way}: {len(found)} balances were read")
    chosen = Reader(node, name, known)
    await chosen.probe(sample(chain, tokens))
    alone = statistics.median(took.pop(ALONE))
    figures = []
    for way, times in took.items():
        p50 = statistics.median(times)
        calls, requests = asked[way]
        note = f"p50; {calls} calls in {requests}; {alone / p50:.1f} times as fast as one by one"
        if way == chosen.order[0]:
            note += "; the way that is chosen"
        title = f"options_{name}_{accounts}x{len(tokens)}_{way}"
        figures.append(Figure(title, p50 * 1000, "ms", note))
    best = min(statistics.median(times) for times in took.values())
    title = f"options_{name}_{accounts}x{len(tokens)}_times"
    note = f"the best way against one by one, which takes {alone * 1000:.1f} ms"
    figures.append(Figure(title, alone / best, "x", note, at_least=1))
    return figures


class _OneByOne(Reader):
    """Asks the next question when the one before is answered."""

    async def read(self, questions: Sequence[Question]) -> list[Answer]:
        found: list[Answer] = []
        known: set[bytes] = set()
        for one in questions:
            # no account here has code, and one look at each tells
            if one.of in known:
                found.append(None)
                continue
            if one.of is not None:
                known.add(one.of)
            found += await batch(self._node, [one])
        return found


async def _tokens(rpc: JsonRpc) -> list[Asset]:
    owner = bytes.fromhex(DEVNET.faucet[2:]).rjust(32, b"\0")
    code = artifact("TestDollar").bytecode + owner
    return [asset_of(settings(), asset(await _deploy(rpc, code))) for _ in range(TOKENS)]


async def _deploy(rpc: JsonRpc, code: bytes) -> str:
    """Puts a contract on the chain; returns its address."""
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
    # one node seals its block a moment after it answered
    for _ in range(1000):
        receipt = await rpc.call("eth_getTransactionReceipt", tx_hash)
        if receipt is not None:
            break
        await asyncio.sleep(0.01)
    if receipt["status"] != "0x1":
        raise RuntimeError("a contract could not be created")
    return str(receipt["contractAddress"]).lower()
