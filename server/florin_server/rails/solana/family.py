"""How Solana nodes say which cluster they serve, how far they are, and that they failed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from florin_server.rails.connection.family import HEAD, Foreign
from florin_server.rails.connection.jsonrpc import Call, RpcError
from florin_server.rails.connection.node import answered
from florin_server.rails.solana.reading.node import FINALIZED, number
from florin_server.rails.types import RailUnavailable

NEW_BLOCKS: Call = ("slotSubscribe", ())
_HEAD: Call = ("getSlot", ({"commitment": FINALIZED},))
_OWN_FAULTS = frozenset({-32603, -32004, -32005, -32007, -32014, -32016, 429})
_OWN_WORDS = ("rate limit", "too many requests", "behind", "unhealthy", "timed out", "try again")


@dataclass(frozen=True, slots=True)
class SolanaFamily:
    """One cluster. `reference` is the CAIP-2 reference: the beginning of its genesis hash."""

    name: str
    reference: str
    lag_max: int

    def allowed_lag(self) -> int:
        """Return how many slots a node may be behind the best."""
        return self.lag_max

    @property
    def sends(self) -> frozenset[str]:
        """Methods that hand over a transaction."""
        return frozenset({"sendTransaction"})

    @property
    def probe(self) -> Sequence[Call]:
        """Genesis hash, and the newest final slot."""
        return [("getGenesisHash", ()), _HEAD]

    def inspected(self, answers: Sequence[Any]) -> int:
        """The head in a probe's answers; raises Foreign if it is another cluster's."""
        genesis = str(answered(answers[0]))
        if not genesis.startswith(self.reference):
            raise Foreign(f"serves solana:{genesis[:32]}, not solana:{self.reference}")
        return number(answers[1])

    def guard(self, calls: Sequence[Call]) -> Call | None:  # noqa: ARG002
        """None: what depends on a slot comes with it."""
        return None

    def heights(self, calls: Sequence[Call], answers: Sequence[Any]) -> Mapping[str, int]:
        """Return the least slot that the answers about final blocks were true in, as `HEAD`."""
        found: dict[str, int] = {}
        for (method, params), answer in zip(calls, answers, strict=True):
            if not _is_final(params) or isinstance(answer, RpcError):
                continue
            try:
                slot = number(answer if method == "getSlot" else _slot(answer))
            except RailUnavailable:
                # it tells no slot, or whoever asked will see what is wrong with it
                continue
            found[HEAD] = min(slot, found.get(HEAD, slot))
        return found

    def is_own_fault(self, refusal: RpcError) -> bool:
        """True if the node failed, and another one may not."""
        text = refusal.message.lower()
        return refusal.code in _OWN_FAULTS or any(word in text for word in _OWN_WORDS)

    def has_it(self, refusal: RpcError) -> bool:
        """True if a transaction was refused because the node knows it."""
        return "already been processed" in refusal.message.lower()


def slot_mark(told: Any) -> Hashable:
    """The newest final slot, which is what payments wait for; None if it is not told."""
    root = told.get("root") if isinstance(told, dict) else None
    return root if isinstance(root, int) else None


def _is_final(params: Sequence[Any]) -> bool:
    """Return True if a call asks for the newest final block, whose slot its answer has."""
    config = params[-1] if params and isinstance(params[-1], dict) else {}
    return config.get("commitment") == FINALIZED


def _slot(answer: Any) -> Any:
    context = answer.get("context") if isinstance(answer, dict) else None
    return context.get("slot") if isinstance(context, dict) else None
