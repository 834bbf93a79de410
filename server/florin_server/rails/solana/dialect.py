"""The Solana dialect: how nodes report their cluster, their head and their failures."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from florin_server.rails.connection.jsonrpc import RpcCall, RpcError
from florin_server.rails.connection.node import require_result
from florin_server.rails.connection.node_dialect import HEAD, WrongChain
from florin_server.rails.solana.reading.node import FINALIZED, parse_number
from florin_server.rails.types import RailUnavailable

NEW_BLOCKS: RpcCall = ("slotSubscribe", ())
_HEAD: RpcCall = ("getSlot", ({"commitment": FINALIZED},))
_NODE_FAULT_CODES = frozenset({-32603, -32004, -32005, -32007, -32014, -32016, 429})
_NODE_FAULT_WORDS = (
    "rate limit",
    "too many requests",
    "behind",
    "unhealthy",
    "timed out",
    "try again",
)


@dataclass(frozen=True, slots=True)
class SolanaNodeDialect:
    """The dialect of one cluster; `reference` is its CAIP-2 reference, a genesis hash prefix."""

    name: str
    reference: str
    lag_max: int

    def get_allowed_lag(self) -> int:
        """Return how many slots a node can lag behind the best."""
        return self.lag_max

    @property
    def broadcast_methods(self) -> frozenset[str]:
        """Return the methods that submit a transaction."""
        return frozenset({"sendTransaction"})

    @property
    def probe_calls(self) -> Sequence[RpcCall]:
        """Return the calls for the genesis hash and the newest final slot."""
        return [("getGenesisHash", ()), _HEAD]

    def parse_probe(self, answers: Sequence[Any]) -> int:
        """Return the head in a probe's answers; raise WrongChain if the cluster is another."""
        genesis = str(require_result(answers[0]))
        if not genesis.startswith(self.reference):
            raise WrongChain(f"serves solana:{genesis[:32]}, not solana:{self.reference}")
        return parse_number(answers[1])

    def find_height_call(self, calls: Sequence[RpcCall]) -> RpcCall | None:  # noqa: ARG002
        """Return None: answers that depend on a slot contain it."""
        return None

    def parse_heights(self, calls: Sequence[RpcCall], answers: Sequence[Any]) -> Mapping[str, int]:
        """Return as `HEAD` the lowest slot of the answers about final blocks."""
        heights: dict[str, int] = {}
        for (method, params), answer in zip(calls, answers, strict=True):
            if not _is_final_call(params) or isinstance(answer, RpcError):
                continue
            try:
                slot = parse_number(answer if method == "getSlot" else _parse_slot(answer))
            except RailUnavailable:
                # it contains no slot, or the caller reports what is wrong with it
                continue
            heights[HEAD] = min(slot, heights.get(HEAD, slot))
        return heights

    def is_node_fault(self, refusal: RpcError) -> bool:
        """Return True if the node failed, so that another node may succeed."""
        text = refusal.message.lower()
        return refusal.code in _NODE_FAULT_CODES or any(word in text for word in _NODE_FAULT_WORDS)

    def is_already_known(self, refusal: RpcError) -> bool:
        """Return True if a transaction was refused because the node already has it."""
        return "already been processed" in refusal.message.lower()


def parse_slot_mark(notification: Any) -> Hashable:
    """Return the newest final slot, for which payments wait; None if it is missing."""
    root = notification.get("root") if isinstance(notification, dict) else None
    return root if isinstance(root, int) else None


def _is_final_call(params: Sequence[Any]) -> bool:
    """Return True if a call reads the newest final block, whose slot its answer contains."""
    config = params[-1] if params and isinstance(params[-1], dict) else {}
    return config.get("commitment") == FINALIZED


def _parse_slot(answer: Any) -> Any:
    context = answer.get("context") if isinstance(answer, dict) else None
    return context.get("slot") if isinstance(context, dict) else None
