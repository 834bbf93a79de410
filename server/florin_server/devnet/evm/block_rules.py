"""How a chain makes its blocks, where chains differ: timestamps, tags, system transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SAFE_DEPTH: Final = 2  # blocks on top that make a block "safe"
FINAL_DEPTH: Final = 6  # ... and "finalized"


@dataclass(frozen=True, slots=True)
class BlockRules:
    """Rules of one chain for its blocks.

    Timestamps are multiples of `timestamp_s` seconds, so that faster blocks share one. So many
    `system_transactions` of type 0x7e begin each block. With `safe_depth` blocks on top of it nodes
    call a block `safe`, with `final_depth` `finalized`.
    """

    timestamp_s: int = 1
    system_transactions: int = 0
    safe_depth: int = SAFE_DEPTH
    final_depth: int = FINAL_DEPTH

    def timestamp(self, now: int) -> int:
        """Return the timestamp of a block that is made at a time; both in Unix seconds."""
        return now - now % self.timestamp_s
