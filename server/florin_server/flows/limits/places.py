"""One kind of limit of held answers: so many places for each key, with those that others hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice

from florin_server.domain.tally import share_of

# of each kind; what is held under others is not told, and each process counts it for itself
_TOLD_MAX = 250
# it was told, but nobody knows whether that was kept
_OPEN = -1


class Places:
    """How many answers are held now, by key; a limit of 0 counts nothing.

    `due` is called when other processes are to be told of what is held.
    """

    __slots__ = (
        "_elsewhere",
        "_most",
        "_share",
        "_shared",
        "_told",
        "counts",
        "due",
        "kind",
        "refused",
    )

    def __init__(self, kind: str, most: int, refused: Callable[[], None]) -> None:
        self.kind = kind
        self.refused = refused
        self.due: Callable[[], None] = _nobody
        self.counts: Counter[str] = Counter()
        self._most = most
        # so many are told; 0 if there is nobody to tell
        self._share = 0
        self._shared: dict[str, None] = {}
        self._told: dict[str, int] = {}
        self._elsewhere: Mapping[str, int] = {}

    def take(self, key: str) -> bool:
        """Takes a place; False if there is none."""
        if not self._most:
            return True
        count = self.counts[key]
        if count + self._elsewhere.get(key, 0) >= self._most:
            return False
        self.counts[key] = count + 1
        if self._share and count + 1 >= self._share:
            self._note(key, count + 1)
        return True

    def give_back(self, key: str) -> None:
        """Undoes one `take`."""
        if self._most:
            self.counts[key] -= 1
            if not self.counts[key]:
                del self.counts[key]

    # with other processes
    def among(self, processes: int) -> None:
        """Sets how many processes have the same places."""
        share = share_of(self._most, processes)
        if share != self._share:
            much = (key for key, n in self.counts.items() if share and n >= share)
            self._shared = dict.fromkeys(islice(much, _TOLD_MAX))
            self._share = share

    def shared(self) -> list[str]:
        """Keys under which so much is held that others are told of it."""
        return list(self._shared)

    def changes(self) -> dict[str, int]:
        """What differs from what others were told; 0 for what is to be told no more.

        Until they are `told`, it is open what they know of it.
        """
        share, counts = self._share, self.counts
        held = {key: counts[key] for key in self._shared if share and counts[key] >= share}
        self._shared = dict.fromkeys(held)
        gone = dict.fromkeys(self._told.keys() - held.keys(), 0)
        changed = {key: n for key, n in held.items() if self._told.get(key) != n}
        self._told.update(dict.fromkeys(changed, _OPEN))
        return gone | changed

    def told(self, changes: Mapping[str, int], *, known: bool) -> None:
        """Others know these counts now; unless we were `known` before, they know nothing else."""
        if not known:
            self._told.clear()
        for key, n in changes.items():
            if n:
                self._told[key] = n
            else:
                self._told.pop(key, None)

    def learn(self, elsewhere: Mapping[str, int]) -> None:
        """Takes over how many the others hold of what is shared."""
        self._elsewhere = elsewhere

    def _note(self, key: str, count: int) -> None:
        if key not in self._shared and len(self._shared) >= _TOLD_MAX:
            return
        self._shared[key] = None
        if count >= self._told.get(key, 0) + self._share:
            self.due()


def _nobody() -> None:
    """There is nobody to tell."""
