"""The number of blocks a node answers in one call for logs, learned from its refusals."""

from __future__ import annotations

import time
from collections.abc import Callable

_EXPIRY_S = 600.0  # after which a refused size is tried again: limits may concern busy blocks


class LogRangeLimit:
    """Search for the largest range a node accepts, between an accepted and a refused size.

    `now` returns monotonic seconds. Sizes are in blocks, 1 or more.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._accepted_size = 0
        self._refused_size: int | None = None
        self._refused_at = 0.0

    def get_size(self, block_count: int) -> int:
        """Return how many of the wanted blocks to request next."""
        if self._refused_size is None or self._now() - self._refused_at > _EXPIRY_S:
            self._refused_size = None
            return block_count
        # midway between the accepted and the refused size; adjacent sizes end the search
        return max(1, min(block_count, (self._accepted_size + self._refused_size) // 2))

    def record_accepted(self, size: int) -> None:
        """Record a range that the node answered."""
        self._accepted_size = max(self._accepted_size, size)

    def record_refused(self, size: int) -> None:
        """Record a range that the node refused; for a single block, size was not the reason."""
        if size == 1:
            self._refused_size, self._accepted_size = None, 0
            return
        self._refused_size, self._refused_at = size, self._now()
        self._accepted_size = min(self._accepted_size, size - 1)
