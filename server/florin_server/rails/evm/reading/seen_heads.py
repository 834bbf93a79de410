"""The times at which an EVM chain's newest heads were first seen, for one finality rule."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from florin_server.rails.types import ObservedHead

# Polls come at intervals, and block times are whole seconds, so our clock need not agree to the
# tick.
_OWN_CLOCK: Final = 0.9
_SEEN_MAX: Final = 4096
# kept for the next process: this many heads, spaced by a fraction of the rule's seconds
_KEPT_MAX: Final = 16
_KEPT_STEPS: Final = 12


@dataclass(frozen=True, slots=True)
class Sighting:
    """A head: block number, hash and Unix time, and the monotonic seconds when it was seen."""

    number: int
    hash: str
    time: int
    at: float


class SeenHeads:
    """Heads that are not `after_s` seconds deep yet, and the newest head that is.

    `deep` is that newest head; None if no head is deep yet.
    """

    def __init__(self, after_s: int) -> None:
        self.after_s = after_s
        self.deep: Sighting | None = None
        self._heads: deque[Sighting] = deque(maxlen=_SEEN_MAX)
        # the remembered heads span more time than blocks need to be final, at any pace
        self._step_s = after_s / (_SEEN_MAX // 2)

    @property
    def newest(self) -> Sighting | None:
        """Return the newest remembered head that is not deep."""
        return self._heads[-1] if self._heads else None

    def add(self, head: Sighting) -> None:
        """Remember a head above all others, unless another was seen just before it."""
        newest = self.newest
        if newest is None or (newest.number < head.number and head.at - newest.at >= self._step_s):
            self._heads.append(head)

    def holds_other(self, number: int, block_hash: str) -> bool:
        """Return whether a head with this number but another hash was seen."""
        return any(
            sighting.number == number and sighting.hash != block_hash for sighting in self._heads
        )

    def forget_from(self, number: int) -> None:
        """Forget the heads from a number on."""
        while self._heads and self._heads[-1].number >= number:
            self._heads.pop()
        if self.deep is not None and self.deep.number >= number:
            self.deep = None

    def deepen(self, head: Sighting, by_count: int, least_s: int) -> None:
        """Advance `deep` to the newest head that is old enough below `head`.

        It is no higher than `by_count`. It is older than `head` by `least_s` seconds of timestamps,
        and by nearly the rule's seconds of our own clock.
        """
        while self._heads:
            sighting = self._heads[0]
            is_old = head.time - sighting.time >= least_s and (
                head.at - sighting.at >= _OWN_CLOCK * self.after_s
            )
            if not is_old or sighting.number > by_count:
                return
            self.deep = self._heads.popleft()

    def list_kept(self, now: float) -> list[ObservedHead]:
        """Return heads that a later process can restore, the oldest first: at most 16."""
        step_s = self.after_s / _KEPT_STEPS
        sightings: list[Sighting] = []
        for seen in reversed(self._heads):
            if not sightings or sightings[-1].at - seen.at >= step_s:
                sightings.append(seen)
        # blocks that are already final then stay final immediately
        sightings = sightings[: _KEPT_MAX - 1] + ([self.deep] if self.deep else [])
        return [
            ObservedHead(seen.number, seen.hash, seen.time, now - seen.at)
            for seen in reversed(sightings)
        ]

    def restore(self, heads: Sequence[ObservedHead], now: float) -> None:
        """Insert an earlier process's heads, the oldest first, before those seen here."""
        if self.deep is not None:
            return
        first = self._heads[0] if self._heads else None
        restored = [
            Sighting(head.number, head.hash, head.time, now - max(0.0, head.age_s))
            for head in heads
            if first is None or head.number < first.number
        ]
        self._heads.extendleft(reversed(restored[: _SEEN_MAX - len(self._heads)]))
