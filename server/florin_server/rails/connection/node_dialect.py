"""The differences between kinds of nodes, and the highest block seen of a chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from florin_server.rails.connection.jsonrpc import RpcCall, RpcError
from florin_server.rails.types import RailUnavailable

HEAD = "head"  # the kind of block that a probe reads
# a chain may go back for good (a restarted test chain): all endpoints report it for this long
DOUBT_S = 30.0


class NodeDialect(Protocol):
    """The differences between kinds of chains."""

    @property
    def broadcast_methods(self) -> frozenset[str]:
        """Return the methods that submit a transaction."""

    @property
    def probe_calls(self) -> Sequence[RpcCall]:
        """Return the calls that read the chain's identity and its head."""

    def get_allowed_lag(self) -> int:
        """Return how many blocks an endpoint can lag behind the best endpoint."""

    def parse_probe(self, answers: Sequence[Any]) -> int:
        """Return the head in a probe's answers; raise WrongChain if the chain is another."""

    def find_height_call(self, calls: Sequence[RpcCall]) -> RpcCall | None:
        """Return a call for the node's head, if the calls themselves do not read it; else None."""

    def parse_heights(self, calls: Sequence[RpcCall], answers: Sequence[Any]) -> Mapping[str, int]:
        """Return the highest block in the answers, by kind of block."""

    def is_node_fault(self, refusal: RpcError) -> bool:
        """Return True if the node failed, so that another node may succeed."""

    def is_already_known(self, refusal: RpcError) -> bool:
        """Return True if a transaction was refused because the node already has it."""


class WrongChain(RailUnavailable):
    """The endpoint serves another chain."""


class StaleNode(RailUnavailable):
    """The answer is older than what was already seen."""


@dataclass(slots=True)
class _HeightFloor:
    height: int = 0
    doubted_at: float | None = None  # when nodes first reported less


class HeightTracker:
    """The highest block seen of a chain, by kind of block."""

    def __init__(self) -> None:
        self._floors: dict[str, _HeightFloor] = {}

    def list_floors(self) -> dict[str, int]:
        """Return the heights below which an answer to a new request is stale."""
        return {kind: floor.height for kind, floor in self._floors.items()}

    def record_heights(
        self, heights: Mapping[str, int], floors: Mapping[str, int], now: float
    ) -> int:
        """Record reported heights; return how many blocks they are below the request's floors."""
        worst = 0
        for kind, height in heights.items():
            floor = self._floors.setdefault(kind, _HeightFloor())
            if height >= floor.height:
                floor.height, floor.doubted_at = height, None
            elif height < floors.get(kind, 0):
                if floor.doubted_at is None:
                    floor.doubted_at = now
                if now - floor.doubted_at < DOUBT_S:
                    worst = max(worst, floors[kind] - height)
                else:
                    floor.height, floor.doubted_at = height, None
        return worst
