"""Keeps when the newest heads of an EVM chain were first seen, for one rule of finality."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from florin_server.rails.types import SeenHead

# Looks come at intervals, and block times are whole seconds: our clock needs not agree to the tick.
_OWN_CLOCK: Final = 0.9
_SEEN_MAX: Final = 4096
# what is kept for the next process: so many heads, in steps of a share of the rule's seconds
_KEPT_MAX: Final = 16
_KEPT_STEPS: Final = 12


@dataclass(frozen=True, slots=True)
class Sighting:
    """A head: its block's number, hash and Unix time, and when it was seen in monotonic seconds."""

    number: int
    hash: str
    time: int
    at: float


class SeenHeads:
    """Heads on which blocks of `after_s` seconds do not stand yet, and the newest on which they do.

    `deep` is that newest head; None while there is none.
    """

    def __init__(self, after_s: int) -> None:
        self.after_s = after_s
        self.deep: Sighting | None = None
        self._heads: deque[Sighting] = deque(maxlen=_SEEN_MAX)
        # what is remembered reaches back for longer than blocks take to be final, however fast
        self._step_s = after_s / (_SEEN_MAX // 2)

    @property
    def newest(self) -> Sighting | None:
        """Return the newest head that is remembered and not deep."""
        return self._heads[-1] if self._heads else None

    def add(self, head: Sighting) -> None:
        """Remember a head that is above all others, unless one was seen just before it."""
        newest = self.newest
        if newest is None or (newest.number < head.number and head.at - newest.at >= self._step_s):
            self._heads.append(head)

    def holds_other(self, number: int, block_hash: str) -> bool:
        """Return whether a head with a number was seen that has another hash."""
        return any(one.number == number and one.hash != block_hash for one in self._heads)

    def forget_from(self, number: int) -> None:
        """Forget the heads from a number on."""
        while self._heads and self._heads[-1].number >= number:
            self._heads.pop()
        if self.deep is not None and self.deep.number >= number:
            self.deep = None

    def deepen(self, head: Sighting, by_count: int, least_s: int) -> None:
        """Move on to the newest head that is old enough below `head`.

        It is no higher than `by_count`, and older than `head` by `least_s` seconds of timestamps
        and nearly as many seconds of our own clock as the rule has.
        """
        while self._heads:
            one = self._heads[0]
            is_old = head.time - one.time >= least_s and (
                head.at - one.at >= _OWN_CLOCK * self.after_s
            )
            if not is_old or one.number > by_count:
                return
            self.deep = self._heads.popleft()

    def list_kept(self, now: float) -> list[SeenHead]:
        """Return heads that a later process may restore, the oldest first: at most 16."""
        step_s = self.after_s / _KEPT_STEPS
        kept: list[Sighting] = []
        for seen in reversed(self._heads):
            if not kept or kept[-1].at - seen.at >= step_s:
                kept.append(seen)
        # what is final already stays so at once
        kept = kept[: _KEPT_MAX - 1] + ([self.deep] if self.deep else [])
        return [
            SeenHead(seen.number, seen.hash, seen.time, now - seen.at) for seen in reversed(kept)
        ]

    def restore(self, heads: Sequence[SeenHead], now: float) -> None:
        """Put heads of an earlier process, the oldest first, before those that were seen here."""
        if self.deep is not None:
            return
        first = self._heads[0] if self._heads else None
        restored = [
            Sighting(head.number, head.hash, head.time, now - max(0.0, head.age_s))
            for head in heads
            if first is None or head.number < first.number
        ]
        self._heads.extendleft(reversed(restored[: _SEEN_MAX - len(self._heads)]))
