"""What differs between kinds of nodes, and how far a chain was seen to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from florin_server.rails.connection.jsonrpc import Call, RpcError
from florin_server.rails.types import RailUnavailable

HEAD = "head"  # the kind of block that a probe asks for
# a chain may go back for good (a test chain begun anew): what all endpoints say for so long is true
PATIENCE_S = 30.0


class Family(Protocol):
    """What differs between kinds of chains."""

    @property
    def sends(self) -> frozenset[str]:
        """Methods that hand over a transaction."""

    @property
    def probe(self) -> Sequence[Call]:
        """Asks which chain it is, and for its head."""

    def allowed_lag(self) -> int:
        """Return how many blocks an endpoint may be behind the best."""

    def inspected(self, answers: Sequence[Any]) -> int:
        """The head in a probe's answers; raises Foreign if it is another chain's."""

    def guard(self, calls: Sequence[Call]) -> Call | None:
        """A call that tells how far the node is that answers the calls, if they do not."""

    def heights(self, calls: Sequence[Call], answers: Sequence[Any]) -> Mapping[str, int]:
        """How far the node is, by kind of block."""

    def is_own_fault(self, refusal: RpcError) -> bool:
        """True if the node failed, and another one may not."""

    def has_it(self, refusal: RpcError) -> bool:
        """True if a transaction was refused because the node knows it."""


class Foreign(RailUnavailable):
    """The endpoint serves another chain."""


class Stale(RailUnavailable):
    """The answer is older than what was seen before."""


@dataclass(slots=True)
class _Floor:
    height: int = 0
    doubted_at: float | None = None  # since when it is said to be less


class Seen:
    """How far a chain was seen to be, by kind of block."""

    def __init__(self) -> None:
        self._floors: dict[str, _Floor] = {}

    def heights(self) -> dict[str, int]:
        """What a question that is asked now must not be answered below."""
        return {kind: floor.height for kind, floor in self._floors.items()}

    def behind(self, told: Mapping[str, int], asked: Mapping[str, int], now: float) -> int:
        """Takes in what was told; by how many blocks it is less than what was seen when asked."""
        worst = 0
        for kind, height in told.items():
            floor = self._floors.setdefault(kind, _Floor())
            if height >= floor.height:
                floor.height, floor.doubted_at = height, None
            elif height < asked.get(kind, 0):
                if floor.doubted_at is None:
                    floor.doubted_at = now
                if now - floor.doubted_at < PATIENCE_S:
                    worst = max(worst, asked[kind] - height)
                else:
                    floor.height, floor.doubted_at = height, None
        return worst
