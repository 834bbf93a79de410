"""How EVM nodes say which chain they serve, how far they are, and that they failed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from florin_server.rails.connection.family import HEAD, Foreign
from florin_server.rails.connection.jsonrpc import Call, RpcError
from florin_server.rails.evm.reading.node import LATEST, hash_text, quantity, record
from florin_server.rails.types import RailUnavailable

_OF_STATE = frozenset({"eth_call", "eth_getBalance", "eth_getCode", "eth_getTransactionCount"})
NEW_BLOCKS: Call = ("eth_subscribe", ("newHeads",))
_LAG_S = 10  # behind others, as five blocks of two seconds are
_HEAD: Call = ("eth_blockNumber", ())
_OWN_FAULTS = frozenset({-32603, -32005, -32002, -32001, 429})  # internal, limits, not there
_OWN_WORDS = (
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
_HAS_IT = ("already known", "known transaction", "already imported", "already exists")


@dataclass(frozen=True, slots=True)
class EvmFamily:
    """One EVM chain. Its first block is compared if `genesis` is given, as lower-case hex."""

    name: str
    chain_id: int
    lag_max: int
    genesis: str | None = None
    block_s: Callable[[], float | None] = lambda: None  # measured seconds between blocks

    def allowed_lag(self) -> int:
        """Return how many blocks a node may be behind: `lag_max`, or those of some seconds."""
        pace = self.block_s()
        return self.lag_max if pace is None else max(self.lag_max, ceil(_LAG_S / pace))

    @property
    def sends(self) -> frozenset[str]:
        """Methods that hand over a transaction."""
        return frozenset({"eth_sendRawTransaction"})

    @property
    def probe(self) -> Sequence[Call]:
        """Chain id, head and, if it is to be compared, the first block."""
        first: Call = ("eth_getBlockByNumber", ("0x0", False))
        return [("eth_chainId", ()), _HEAD, *([first] if self.genesis else [])]

    def inspected(self, answers: Sequence[Any]) -> int:
        """The head in a probe's answers; raises Foreign if it is another chain's."""
        number = quantity(answers[0])
        if number != self.chain_id:
            raise Foreign(f"serves chain {number}, not {self.chain_id}")
        if self.genesis:
            first = record(answers[2])
            if first is None or hash_text(first.get("hash")) != self.genesis:
                raise Foreign(f"serves another chain with the id {self.chain_id}")
        return quantity(answers[1])

    def guard(self, calls: Sequence[Call]) -> Call | None:
        """The number of the newest block, asked before what depends on it."""
        dependent = any(method in _OF_STATE and LATEST in params for method, params in calls)
        return _HEAD if dependent and _HEAD not in calls else None

    def heights(self, calls: Sequence[Call], answers: Sequence[Any]) -> Mapping[str, int]:
        """The newest block that the node told of."""
        heads = [
            number
            for call, answer in zip(calls, answers, strict=True)
            if (number := _head(call, answer)) is not None
        ]
        # of a batch that was answered by many nodes, the one that is least far counts
        return {HEAD: min(heads)} if heads else {}

    def is_own_fault(self, refusal: RpcError) -> bool:
        """True if the node failed, and another one may not."""
        if refusal.is_revert:
            return False
        text = refusal.message.lower()
        return refusal.code in _OWN_FAULTS or any(word in text for word in _OWN_WORDS)

    def has_it(self, refusal: RpcError) -> bool:
        """True if a transaction was refused because the node knows it."""
        return any(word in refusal.message.lower() for word in _HAS_IT)


def block_mark(told: Any) -> Hashable:
    """What tells a new head from the one before; None if it is no head."""
    return str(told["hash"]) if isinstance(told, dict) and "hash" in told else None


def _head(call: Call, answer: Any) -> int | None:
    method, params = call
    if isinstance(answer, RpcError):
        return None
    try:
        if method == "eth_blockNumber":
            return quantity(answer)
        if method == "eth_getBlockByNumber" and params[0] == LATEST:
            block = record(answer)
            return None if block is None else quantity(block.get("number"))
    except RailUnavailable:
        # whoever asked will see what is wrong with the answer
        return None
    return None
