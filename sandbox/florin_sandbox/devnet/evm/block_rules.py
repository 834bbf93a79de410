"""Block rules that differ between chains: timestamps, tags, system transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SAFE_DEPTH: Final = 2  # blocks on top that make a block "safe"
FINAL_DEPTH: Final = 6  # ... and "finalized"


@dataclass(frozen=True, slots=True)
class BlockRules:
    """Rules of one chain for its blocks.

    Timestamps are multiples of `timestamp_s` seconds, so that faster blocks share a timestamp. Each
    block begins with `system_transactions` transactions of type 0x7e. Nodes call a block `safe`
    with `safe_depth` blocks on top of it, and `finalized` with `final_depth`.
    """

    timestamp_s: int = 1
    system_transactions: int = 0
    safe_depth: int = SAFE_DEPTH
    final_depth: int = FINAL_DEPTH

    def get_timestamp(self, now: int) -> int:
        """Return the timestamp of a block that is made at a time; both in Unix seconds."""
        return now - now % self.timestamp_s
