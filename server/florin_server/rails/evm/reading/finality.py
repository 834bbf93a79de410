"""Decides which blocks of an EVM chain are final: by time, by the chain's own word, and by count.

Every condition that the settings name must hold, so that a node that lies about one of them makes
nothing final sooner than the others allow.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Final

from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.pace import BLOCK_S_MIN, PaceMeter
from florin_server.rails.types import SeenHead

AWAITED_S: Final = 60.0  # besides its depth: until a transaction is in a block, mostly
# Looks come at intervals, and block times are whole seconds: our clock needs not agree to the tick.
_OWN_CLOCK: Final = 0.9
# What is left of the pace's inaccuracy (in parts, and at most so many blocks) asks for no block
# more.
_INACCURACY: Final = 0.015
_INACCURACY_BLOCKS: Final = 0.5
_SEEN_MAX: Final = 4096
_REPLACED_MAX: Final = 1000  # by a tag that stays behind: nobody reads without end for its sake
# what is kept for the next process: so many heads, in steps of a share of `final_after_s`
_KEPT_MAX: Final = 16
_KEPT_STEPS: Final = 12
_UNTAGGED_MAX: Final = 10  # a node of several may lack the tag, or the answer, for a moment
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A head: its block's number, hash and Unix time, and when it was seen in monotonic seconds."""

    number: int
    hash: str
    time: int
    at: float


class Finality:
    """Follows the heads of one chain and tells the newest final block.

    A block is final if it has the `confirmations` of the settings, if blocks of `final_after_s`
    seconds are on top of it by the measured pace and by their timestamps, if it was seen here
    nearly as long ago, and if the node calls it `finality_tag`. `now` returns monotonic seconds.
    """

    def __init__(self, chain: EvmChain, now: Callable[[], float] = time.monotonic) -> None:
        self.pace = PaceMeter()
        self._chain = chain
        self._now = now
        self._seen: deque[_Seen] = deque(maxlen=_SEEN_MAX)
        # what is remembered reaches back for longer than blocks take to be final, however fast
        self._step_s = chain.final_after_s / (_SEEN_MAX // 2)
        self._deep: _Seen | None = None
        self._tagged: int | None = None
        self._above_tag = 0  # blocks above the one that the node calls final
        self._untagged = 0  # heads in a row for which no block was named
        self._awaited_until = -inf

    @property
    def is_timed(self) -> bool:
        """Return whether more than a count of blocks decides."""
        return self._chain.final_after_s > 0 or self._chain.finality_tag != "none"

    @property
    def is_awaited(self) -> bool:
        """Return whether a transaction of ours was sent lately, and may not be final yet."""
        return self._now() < self._awaited_until

    def await_transaction(self) -> None:
        """Record that a transaction of ours was sent."""
        self._awaited_until = self._now() + self._chain.final_after_s + AWAITED_S

    @property
    def problem(self) -> str:
        """Return in a sentence why no block becomes final; empty if one may."""
        if self._untagged <= _UNTAGGED_MAX:
            return ""
        tag = self._chain.finality_tag
        return (
            f"{self._chain.name}: the nodes name no `{tag}` block, so no payment becomes final: "
            "use others, or set finality_tag and final_after_s"
        )

    @property
    def depth(self) -> int:
        """Return how many blocks, its own among them, a final block has at the measured pace."""
        least, pace = self._chain.confirmations, self.pace.block_s
        if not self._chain.final_after_s or pace is None:
            return least
        blocks = self._chain.final_after_s / pace
        return max(least, ceil(blocks - min(_INACCURACY * blocks, _INACCURACY_BLOCKS)) + 1)

    @property
    def reorg_depth(self) -> int:
        """Return how many blocks, the head among them, may be replaced before they are final.

        Until the pace is measured it is taken for the fastest that is believed, so that nothing is
        looked for too near the head, or forgotten too soon.
        """
        depth = self.depth
        if self._chain.final_after_s and self.pace.measured_s is None:
            depth = max(depth, ceil(self._chain.final_after_s / BLOCK_S_MIN) + 1)
        return max(depth, min(self._above_tag, _REPLACED_MAX))

    def count_blocks(self, seconds: float) -> int:
        """Return how many blocks come in a time at the measured pace.

        0 before that is known, and where `confirmations` alone decide.
        """
        pace = self.pace.block_s if self.is_timed else None
        return 0 if pace is None else ceil(seconds / pace)

    def record_head(self, number: int, block_hash: str, block_time: int, tagged: int | None) -> int:
        """Record a head and the block that the node calls final; return the newest final block.

        `tagged` is None if the node named none. The result is -1 while there is no final block.
        """
        seen = _Seen(number, block_hash, block_time, self._now())
        self._forget_from(number + 1)
        if self._seen and self._seen[-1].number == number and self._seen[-1].hash != block_hash:
            self.forget_replaced(number, block_hash)
        if not self._seen or self._seen[-1].number < number:
            if not self._seen or seen.at - self._seen[-1].at >= self._step_s:
                self._seen.append(seen)
            self.pace.record(number, seen.at, block_time)
        self._record_tag(number, tagged)
        self._deepen(seen)
        return self.final_at(number)

    def final_at(self, head: int) -> int:
        """Return the newest final block for a node whose head is given, -1 if it has none."""
        final = head - self.depth + 1
        if self._chain.final_after_s:
            final = min(final, -1 if self._deep is None else self._deep.number)
        if self._chain.finality_tag != "none":
            final = min(final, -1 if self._tagged is None else self._tagged)
        return max(final, -1)

    def is_old_enough(self, block_time: int, head_time: int) -> bool:
        """Return whether the timestamps of a block and of a head are far enough apart."""
        after = self._chain.final_after_s
        # timestamps are whole seconds; once the pace is known, the count of blocks makes up for it
        return head_time - block_time >= (after if not after or self.pace.measured_s else after + 1)

    def forget_replaced(self, number: int, block_hash: str) -> None:
        """Forget when a block was seen if another one has its place now, and all after it."""
        if any(one.number == number and one.hash != block_hash for one in self._seen):
            self._forget_from(number)

    def list_seen(self) -> list[SeenHead]:
        """Return heads that a later process may restore, the oldest first: at most 16.

        Empty where the time since a block was seen decides nothing.
        """
        if not self._chain.final_after_s:
            return []
        now, step_s = self._now(), self._chain.final_after_s / _KEPT_STEPS
        kept: list[_Seen] = []
        for seen in reversed(self._seen):
            if not kept or kept[-1].at - seen.at >= step_s:
                kept.append(seen)
        # what is final already stays so at once
        kept = kept[: _KEPT_MAX - 1] + ([self._deep] if self._deep else [])
        return [
            SeenHead(seen.number, seen.hash, seen.time, now - seen.at) for seen in reversed(kept)
        ]

    def restore_seen(self, heads: Sequence[SeenHead]) -> None:
        """Count the age of blocks from when an earlier process saw them.

        `heads` are blocks of the chain as it is now, the oldest first. They are left out where this
        process has seen blocks as old; all other conditions of finality hold as before.
        """
        now = self._now()
        first = self._deep or (self._seen[0] if self._seen else None)
        restored = [
            _Seen(head.number, head.hash, head.time, now - max(0.0, head.age_s))
            for head in heads
            if first is None or head.number < first.number
        ]
        if self._deep is None:
            self._seen.extendleft(reversed(restored[: _SEEN_MAX - len(self._seen)]))

    def _forget_from(self, number: int) -> None:
        while self._seen and self._seen[-1].number >= number:
            self._seen.pop()
        self.pace.forget_from(number)
        if self._deep is not None and self._deep.number >= number:
            self._deep = None

    def _record_tag(self, head: int, tagged: int | None) -> None:
        name = self._chain.finality_tag
        if name == "none":
            return
        if tagged is not None and tagged > head:
            # above its own head: the node's word is worth nothing, what it said before remains
            _log.warning("%s: the %s block %d is above the head", self._chain.name, name, tagged)
            return
        if tagged is not None and self._tagged is not None and tagged < self._tagged:
            _log.warning("%s: the %s block went back to %d", self._chain.name, name, tagged)
        self._untagged = self._untagged + 1 if tagged is None else 0
        self._tagged = tagged if tagged is not None else self._tagged
        self._above_tag = 0 if self._tagged is None else head - self._tagged

    def _deepen(self, head: _Seen) -> None:
        """Move on to the newest head that is deep enough by timestamps and by our clock."""
        after = self._chain.final_after_s
        while self._seen:
            one = self._seen[0]
            is_deep = self.is_old_enough(one.time, head.time) and (
                head.at - one.at >= _OWN_CLOCK * after
            )
            if not is_deep or one.number > head.number - self.depth + 1:
                return
            self._deep = one
            self._seen.popleft()
