"""Usage of each budget by one process since its last report to the processes that share it.

Time alone drops nothing: calls that stay below the `share` in every process are reported too, once
they reach it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

# at a time; the others are reported later
_DUE_MAX = 10_000


def compute_threshold(most: int, processes: int) -> int:
    """Return how much of a limit one process uses before it reports; 0 if it is alone.

    A quarter of its part: the unknown usage of all processes is at most a quarter of the limit.
    Usage of one or two calls is not reported.
    """
    return max(min(2, most), most // (4 * processes)) if processes > 1 else 0


class PendingCounts:
    """Counts of calls by key; with a `threshold` of 0 nothing is counted or shared.

    Beyond `keys_max` keys the oldest count is dropped.
    """

    __slots__ = ("_counts", "_due", "_keys_max", "_share")

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._share = 0
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._due: dict[str, None] = {}

    def __len__(self) -> int:
        """Return how many keys are counted."""
        return len(self._counts)

    @property
    def threshold(self) -> int:
        """Return the number of calls of a key at which to report; 0 to report none."""
        return self._share

    @threshold.setter
    def threshold(self, calls: int) -> None:
        self._share = calls
        if not calls:
            self._counts.clear()
            self._due.clear()

    def add(self, key: str) -> bool:
        """Count a call; return True if the key must be reported now."""
        count = self._counts.get(key, 0) + 1
        self._counts[key] = count
        if len(self._counts) > self._keys_max:
            oldest, _ = self._counts.popitem(last=False)
            self._due.pop(oldest, None)
        if count < self._share:
            return False
        if len(self._due) < _DUE_MAX:
            self._due[key] = None
        return True

    def release(self, key: str) -> None:
        """Undo one call; a reported call is offset against the next ones."""
        if key in self._counts or len(self._counts) < self._keys_max:
            self._counts[key] = self._counts.get(key, 0) - 1

    def list_due(self) -> Iterator[tuple[float, str]]:
        """Return the keys to report, each with how often it reached the share."""
        for key in self._due:
            yield self._counts[key] / self._share, key

    def get_count(self, key: str) -> int:
        """Return how many calls of a key are not reported."""
        return self._counts.get(key, 0)

    def mark_reported(self, key: str, calls: int) -> int:
        """Record that so many calls were reported; return how many were added meanwhile."""
        if key not in self._counts:
            return 0
        left = self._counts[key] - calls
        if left:
            self._counts[key] = left
        else:
            del self._counts[key]
        if left < self._share:
            self._due.pop(key, None)
        return left
