"""Measure the cost of following a chain without payments: node calls and CPU, by its pace.

The chain is simulated: its node answers from memory, with the blocks that its pace produces, and
its own CPU time does not count.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from florin_server.money.settlement.worker.blocks import BlockFollower
from florin_server.rails.evm.rail import EvmRail

from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support.evm_harness import RELAYER, make_chain_settings

PACES = sized((2.0, 0.25, 0.2), (0.2,))
SECONDS = sized(20.0, 1.5)
POLL_MS = 1_000
_TRANSACTIONS = 20  # in each block, all of other senders
_FIRST_BLOCKS = 1_000  # blocks before the first look


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    return [figure for pace in PACES for figure in asyncio.run(_followed(pace))]


async def _followed(block_s: float) -> list[Figure]:
    node = Simulated(block_s)
    chain = make_chain_settings(confirmations=5, final_after_s=10, poll_ms=POLL_MS)
    rail = EvmRail(chain, RELAYER, node)
    blocks = BlockFollower(rail.observer, rail.blocks, chain.confirmations)
    await blocks.start()
    await rail.nodes.wait_for_block()
    await blocks.poll(is_idle=True)
    node.call_counts.clear()
    node.own_s = 0.0
    looks, first = 0, blocks.head
    started, cpu_s = time.monotonic(), time.process_time()
    while time.monotonic() - started < SECONDS:
        await rail.nodes.wait_for_block()
        await blocks.poll(is_idle=True)
        looks += 1
    took, cpu_s = time.monotonic() - started, time.process_time() - cpu_s - node.own_s
    calls, seen = node.call_counts.total(), blocks.head - first
    await rail.close()
    if not seen:
        raise RuntimeError("no block was seen")
    title = f"idle_{block_s:g}s"
    note = f"{seen} blocks of {_TRANSACTIONS} transactions in {looks} looks: " + ", ".join(
        f"{count} {method}" for method, count in node.call_counts.most_common()
    )
    return [
        Figure(f"{title}_calls_a_look", calls / looks, "", note, at_most=2),
        Figure(f"{title}_calls", calls / took, "/s", "calls to the node"),
        Figure(f"{title}_cpu", 100 * cpu_s / took, "%", "of a core, node left out", at_most=2),
    ]


class Simulated:
    """A node with a block every `block_s` seconds, and none of Florin's transactions."""

    def __init__(self, block_s: float) -> None:
        self.call_counts: Counter[str] = Counter()
        self.own_s = 0.0  # its own CPU time
        self._block_s = block_s
        self._since = time.monotonic()
        self._epoch_s = int(time.time())

    async def send(self, payload: bytes) -> bytes:
        """Answer one call or a batch."""
        before_s = time.thread_time()
        questions = json.loads(payload)
        if isinstance(questions, list):
            answer = b"[" + b",".join(self._answered(question) for question in questions) + b"]"
        else:
            answer = self._answered(questions)
        self.own_s += time.thread_time() - before_s
        return answer

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _answered(self, question: dict[str, Any]) -> bytes:
        self.call_counts[question["method"]] += 1
        result = json.dumps(self._result(question["method"], question["params"]))
        return b'{"jsonrpc":"2.0","id":%d,"result":%s}' % (question["id"], result.encode())

    def _result(self, method: str, params: list[Any]) -> Any:
        head = _FIRST_BLOCKS + int((time.monotonic() - self._since) / self._block_s)
        match method:
            case "eth_blockNumber":
                return hex(head)
            case "eth_getLogs":
                return []
        number = int(params[0], 16) if params[0].startswith("0x") else head
        if number > head:
            return None
        if method == "eth_getBlockReceipts":
            return [_receipt(number, index) for index in range(_TRANSACTIONS)]
        return {
            "number": hex(number),
            "hash": _hash(number),
            "parentHash": _hash(number - 1),
            "timestamp": hex(self._epoch_s + int((number - _FIRST_BLOCKS) * self._block_s)),
            "baseFeePerGas": "0x7",
            "transactions": [_hash(number, index + 1) for index in range(_TRANSACTIONS)],
        }


def _hash(number: int, index: int = 0) -> str:
    return f"0x{number:032x}{index:032x}"


def _receipt(number: int, index: int) -> dict[str, Any]:
    """Return the receipt of a token transfer between two strangers."""
    place = {
        "transactionHash": _hash(number, index + 1),
        "blockHash": _hash(number),
        "blockNumber": hex(number),
        "transactionIndex": hex(index),
    }
    token = f"0x{0xAA:040x}"
    topics = [f"0x{item:064x}" for item in (1, 2, 3)]
    log = {"address": token, "topics": topics, "data": f"0x{1:064x}", "logIndex": hex(index)}
    return place | {
        "from": f"0x{0xBB:040x}",
        "to": token,
        "status": "0x1",
        "gasUsed": "0xb000",
        "effectiveGasPrice": "0x8",
        "logsBloom": "0x" + "00" * 256,
        "logs": [log | place | {"removed": False}],
    }
