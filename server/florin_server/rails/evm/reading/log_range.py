"""How many blocks a node answers in one call for logs: learned from what it refuses."""

from __future__ import annotations

import time
from collections.abc import Callable

_FORGOTTEN_S = 600.0  # after which a refused size is tried again: limits may be about busy blocks


class LogRange:
    """Searches for the largest range that a node takes, between one it took and one it refused.

    `now` returns monotonic seconds. Sizes are in blocks, 1 or more.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._taken = 0
        self._refused: int | None = None
        self._refused_at = 0.0

    def size(self, wanted: int) -> int:
        """Return how many of the wanted blocks to ask for next."""
        if self._refused is None or self._now() - self._refused_at > _FORGOTTEN_S:
            self._refused = None
            return wanted
        # midway between what was taken and what was refused; neighbours need no further search
        return max(1, min(wanted, (self._taken + self._refused) // 2))

    def took(self, size: int) -> None:
        """Record a range that the node answered."""
        self._taken = max(self._taken, size)

    def refused(self, size: int) -> None:
        """Record a range that the node refused; of one block, the size was not the reason."""
        if size == 1:
            self._refused, self._taken = None, 0
            return
        self._refused, self._refused_at = size, self._now()
        self._taken = min(self._taken, size - 1)
