"""The wait before a process that died is restarted."""

from __future__ import annotations

from typing import Final

INITIAL_S: Final = 1.0
MAX_S: Final = 30.0
# a process that lived this long did not die of an immediate fault
RESET_AFTER_S: Final = 60.0


class RestartBackoff:
    """Twice as long each time, until a process has lived for a minute."""

    def __init__(self) -> None:
        self._next_s = INITIAL_S

    def get_delay(self, lived_s: float) -> float:
        """Return the seconds to wait after a process that lived so long."""
        if lived_s >= RESET_AFTER_S:
            self._next_s = INITIAL_S
        now_s, self._next_s = self._next_s, min(2 * self._next_s, MAX_S)
        return now_s
