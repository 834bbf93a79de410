"""What one process took of each budget since it told the others, who take of them too.

Nothing is forgotten because time passed: calls that stay below the `share` here and in every other
process are told as well, once they come to it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

# at a time; those that are not among them are told later
_DUE_MAX = 10_000


def share_of(most: int, processes: int) -> int:
    """So much of a limit one process uses before it tells the others; 0 if there are none.

    A quarter of its part: what they do not know of each other is a quarter of the limit at most.
    What is done once or twice is not told.
    """
    return max(min(2, most), most // (4 * processes)) if processes > 1 else 0


class Tally:
    """Counts of calls by key; with a `share` of 0 there is nobody to tell, and nothing is counted.

    Of more than `keys_max` keys the oldest count is dropped.
    """

    __slots__ = ("_counts", "_due", "_keys_max", "_share")

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._share = 0
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._due: dict[str, None] = {}

    def __len__(self) -> int:
        """How many keys are counted."""
        return len(self._counts)

    @property
    def share(self) -> int:
        """So many calls of a key are to be told; 0 if nobody is to be told of any."""
        return self._share

    @share.setter
    def share(self, calls: int) -> None:
        self._share = calls
        if not calls:
            self._counts.clear()
            self._due.clear()

    def add(self, key: str) -> bool:
        """Counts a call; True if the key is to be told now."""
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

    def take_back(self, key: str) -> None:
        """Undoes one call; one that was told already is made good with the next ones."""
        if key in self._counts or len(self._counts) < self._keys_max:
            self._counts[key] = self._counts.get(key, 0) - 1

    def due(self) -> Iterator[tuple[float, str]]:
        """Keys that are to be told, each with how often it came to the share."""
        for key in self._due:
            yield self._counts[key] / self._share, key

    def count(self, key: str) -> int:
        """How many calls of a key were not told."""
        return self._counts.get(key, 0)

    def told(self, key: str, calls: int) -> int:
        """So many calls were told; answers how many more there were meanwhile."""
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
