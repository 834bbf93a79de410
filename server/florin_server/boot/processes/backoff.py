"""How long a process that died waits until it is started again."""

from __future__ import annotations

from typing import Final

FIRST_S: Final = 1.0
MOST_S: Final = 30.0
# who lived for so long did not die of what kills at once
LIVED_S: Final = 60.0


class Backoff:
    """Twice as long each time, until a process has lived for a minute."""

    def __init__(self) -> None:
        self._next_s = FIRST_S

    def after(self, lived_s: float) -> float:
        """Seconds to wait after one that lived so long."""
        if lived_s >= LIVED_S:
            self._next_s = FIRST_S
        now_s, self._next_s = self._next_s, min(2 * self._next_s, MOST_S)
        return now_s
