"""The stored pace of chains, for commands without a running service."""

from __future__ import annotations

from dataclasses import dataclass

from florin_server.db.engine.query import Op, operation
from florin_server.domain.settlement.pace import format_pace
from florin_server.operations.store import observed


@dataclass(frozen=True, slots=True)
class StoredPace:
    """Seconds between blocks, measured last and usual, and from confirm to final (median)."""

    block_s: float
    usual_s: float
    settle_s: float | None

    @property
    def text(self) -> str:
        """Return the measured seconds between blocks as people read them."""
        return format_pace(self.block_s)

    def describe(self, chain_id: str) -> str:
        """Return a sentence about a chain."""
        pace = f"{chain_id}: a block every {self.text}, usually {format_pace(self.usual_s)}"
        if self.settle_s is None:
            return pace
        return f"{pace}; half of its payments are final within {self.settle_s:.1f} s"


@operation
def list_paces() -> Op[dict[str, StoredPace]]:
    """Return what is known of every chain whose pace was measured, by CAIP-2."""
    paces = {}
    for chain_id, pace in (yield from observed.list_paces()).items():
        times = yield from observed.get_times(chain_id)
        paces[chain_id] = StoredPace(pace.measured_s, pace.usual_s, times.median_s)
    return paces
