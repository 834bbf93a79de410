"""The EVM dialect: how nodes report their chain, their head and their failures."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from florin_server.rails.connection.jsonrpc import RpcCall, RpcError
from florin_server.rails.connection.node_dialect import HEAD, WrongChain
from florin_server.rails.evm.reading.node import (
    LATEST,
    parse_hash,
    parse_object,
    parse_quantity,
)
from florin_server.rails.types import RailUnavailable

_STATE_METHODS = frozenset({"eth_call", "eth_getBalance", "eth_getCode", "eth_getTransactionCount"})
NEW_BLOCKS: RpcCall = ("eth_subscribe", ("newHeads",))
_LAG_S = 10  # behind other nodes, as five blocks of two seconds are
_HEAD: RpcCall = ("eth_blockNumber", ())
# internal errors, limits, missing resources
_NODE_FAULT_CODES = frozenset({-32603, -32005, -32002, -32001, 429})
_NODE_FAULT_WORDS = (
    "header not found",
    "block not found",
    "unknown block",
    "missing trie node",
    "pruned",
    "state not available",
    "state is not available",
    "historical state",
    "not synced",
    "rate limit",
    "too many requests",
    "limit exceeded",
    "exceeded its",
    "timeout",
    "timed out",
    "try again",
    "temporarily",
    "unavailable",
    "overloaded",
    "internal error",
)
_ALREADY_KNOWN_WORDS = ("already known", "known transaction", "already imported", "already exists")


@dataclass(frozen=True, slots=True)
class EvmNodeDialect:
    """The dialect of one EVM chain; `genesis` is the hash its first block must have, if set."""

    name: str
    chain_id: int
    lag_max: int
    genesis: str | None = None
    get_block_s: Callable[[], float | None] = lambda: None  # measured seconds between blocks

    def get_allowed_lag(self) -> int:
        """Return how many blocks a node can lag: `lag_max`, or the blocks of `_LAG_S` if more."""
        pace = self.get_block_s()
        return self.lag_max if pace is None else max(self.lag_max, ceil(_LAG_S / pace))

    @property
    def broadcast_methods(self) -> frozenset[str]:
        """Return the methods that submit a transaction."""
        return frozenset({"eth_sendRawTransaction"})

    @property
    def probe_calls(self) -> Sequence[RpcCall]:
        """Return the calls for chain id, head and, if it is compared, the first block."""
        first: RpcCall = ("eth_getBlockByNumber", ("0x0", False))
        return [("eth_chainId", ()), _HEAD, *([first] if self.genesis else [])]

    def parse_probe(self, answers: Sequence[Any]) -> int:
        """Return the head in a probe's answers; raise WrongChain if the chain is another."""
        number = parse_quantity(answers[0])
        if number != self.chain_id:
            raise WrongChain(f"serves chain {number}, not {self.chain_id}")
        if self.genesis:
            first = parse_object(answers[2])
            if first is None or parse_hash(first.get("hash")) != self.genesis:
                raise WrongChain(f"serves another chain with the id {self.chain_id}")
        return parse_quantity(answers[1])

    def find_height_call(self, calls: Sequence[RpcCall]) -> RpcCall | None:
        """Return a call for the newest block's number if the calls depend on it, else None."""
        dependent = any(method in _STATE_METHODS and LATEST in params for method, params in calls)
        return _HEAD if dependent and _HEAD not in calls else None

    def parse_heights(self, calls: Sequence[RpcCall], answers: Sequence[Any]) -> Mapping[str, int]:
        """Return the newest block in the answers."""
        heads = [
            number
            for call, answer in zip(calls, answers, strict=True)
            if (number := _parse_head(call, answer)) is not None
        ]
        # several nodes may answer one batch: the node that is furthest behind counts
        return {HEAD: min(heads)} if heads else {}

    def is_node_fault(self, refusal: RpcError) -> bool:
        """Return True if the node failed, so that another node may succeed."""
        if refusal.is_revert:
            return False
        text = refusal.message.lower()
        return refusal.code in _NODE_FAULT_CODES or any(word in text for word in _NODE_FAULT_WORDS)

    def is_already_known(self, refusal: RpcError) -> bool:
        """Return True if a transaction was refused because the node already has it."""
        return any(word in refusal.message.lower() for word in _ALREADY_KNOWN_WORDS)


def parse_head_mark(notification: Any) -> Hashable:
    """Return the value that distinguishes a new head; None if it is not a head."""
    return (
        str(notification["hash"])
        if isinstance(notification, dict) and "hash" in notification
        else None
    )


def _parse_head(call: RpcCall, answer: Any) -> int | None:
    method, params = call
    if isinstance(answer, RpcError):
        return None
    try:
        if method == "eth_blockNumber":
            return parse_quantity(answer)
        if method == "eth_getBlockByNumber" and params[0] == LATEST:
            block = parse_object(answer)
            return None if block is None else parse_quantity(block.get("number"))
    except RailUnavailable:
        # the caller of the request reports what is wrong with the answer
        return None
    return None
