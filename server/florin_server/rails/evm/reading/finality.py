"""Decides which blocks of an EVM chain are final: by time, by the chain's own word, and by count.

Every condition that the settings name must hold, so that a node that lies about one of them makes
nothing final sooner than the others allow.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from math import ceil, inf
from typing import Final

from florin_server.rails.evm.reading.seen_heads import SeenHeads, Sighting
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.pace import BLOCK_S_MIN, PaceMeter
from florin_server.rails.types import SeenHead

AWAITED_S: Final = 60.0  # besides its depth: until a transaction is in a block, mostly
# What is left of the pace's inaccuracy (in parts, and at most so many blocks) asks for no block
# more.
_INACCURACY: Final = 0.015
_INACCURACY_BLOCKS: Final = 0.5
_REPLACED_MAX: Final = 1000  # by a tag that stays behind: nobody reads without end for its sake
_UNTAGGED_MAX: Final = 10  # a node of several may lack the tag, or the answer, for a moment
_log = logging.getLogger(__name__)


class Finality:
    """Follows the heads of one chain and tells the newest final block.

    A block is final if it has the `confirmations` of the settings, if blocks of `final_after_s`
    seconds are on top of it by the measured pace and by their timestamps, if it was seen here
    nearly as long ago, and if the node calls it `finality_tag`. `now` returns monotonic seconds.

    Methods with `after_s` take the seconds of larger amounts too, of those that the settings name;
    None stands for `final_after_s`.
    """

    def __init__(self, chain: EvmChain, now: Callable[[], float] = time.monotonic) -> None:
        self.pace = PaceMeter()
        self._chain = chain
        self._now = now
        self._seen = SeenHeads(chain.final_after_s)
        longer = (step.final_after_s for step in chain.larger_amounts)
        self._by_seconds = {
            chain.final_after_s: self._seen,
            **{seconds: SeenHeads(seconds) for seconds in longer},
        }
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
        return self.depth_of()

    def depth_of(self, after_s: int | None = None) -> int:
        """Return how many blocks, its own among them, are blocks of so many seconds."""
        least, pace = self._chain.confirmations, self.pace.block_s
        seconds = self._chain.final_after_s if after_s is None else after_s
        if not seconds or pace is None:
            return least
        blocks = seconds / pace
        return max(least, ceil(blocks - min(_INACCURACY * blocks, _INACCURACY_BLOCKS)) + 1)

    @property
    def reorg_depth(self) -> int:
        """Return how many blocks, the head among them, may be replaced before they are final.

        Until the pace is measured it is taken for the fastest that is believed, so that nothing is
        looked for too near the head, or forgotten too soon. For larger amounts, which are final
        later, an earlier process's measure is enough: their blocks would be too many to look at.
        """
        longest_s = max(self._by_seconds)
        depth = self.depth_of(longest_s)
        if self.pace.measured_s is None:
            usual_s = longest_s if self.pace.block_s is None else self._chain.final_after_s
            depth = max(depth, ceil(usual_s / BLOCK_S_MIN) + 1 if usual_s else 0)
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
        seen = Sighting(number, block_hash, block_time, self._now())
        self._forget_from(number + 1)
        newest = self._seen.newest
        if newest is not None and newest.number == number and newest.hash != block_hash:
            self.forget_replaced(number, block_hash)
            newest = self._seen.newest
        if newest is None or newest.number < number:
            for heads in self._by_seconds.values():
                heads.add(seen)
            self.pace.record(number, seen.at, block_time)
        self._record_tag(number, tagged)
        for seconds, heads in self._by_seconds.items():
            by_count = number - self.depth_of(seconds) + 1
            heads.deepen(seen, by_count, self._least_age_s(seconds))
        return self.final_at(number)

    def final_at(self, head: int, after_s: int | None = None) -> int:
        """Return the newest final block for a node whose head is given, -1 if it has none."""
        seconds = self._chain.final_after_s if after_s is None else after_s
        final = head - self.depth_of(seconds) + 1
        if seconds:
            deep = self._by_seconds[seconds].deep
            final = min(final, -1 if deep is None else deep.number)
        if self._chain.finality_tag != "none":
            final = min(final, -1 if self._tagged is None else self._tagged)
        return max(final, -1)

    def is_old_enough(self, block_time: int, head_time: int, after_s: int | None = None) -> bool:
        """Return whether the timestamps of a block and of a head are far enough apart."""
        seconds = self._chain.final_after_s if after_s is None else after_s
        return head_time - block_time >= self._least_age_s(seconds)

    def _least_age_s(self, after_s: int) -> int:
        # timestamps are whole seconds; once the pace is known, the count of blocks makes up for it
        return after_s if not after_s or self.pace.measured_s else after_s + 1

    def forget_replaced(self, number: int, block_hash: str) -> None:
        """Forget when a block was seen if another one has its place now, and all after it."""
        if any(heads.holds_other(number, block_hash) for heads in self._by_seconds.values()):
            self._forget_from(number)

    def list_seen(self) -> list[SeenHead]:
        """Return heads that a later process may restore, the oldest first: at most 16.

        They span `final_after_s`. Empty where the time since a block was seen decides nothing.
        """
        return self._seen.list_kept(self._now()) if self._chain.final_after_s else []

    def restore_seen(self, heads: Sequence[SeenHead]) -> None:
        """Count the age of blocks from when an earlier process saw them.

        `heads` are blocks of the chain as it is now, the oldest first. They are left out where this
        process has seen blocks as old; all other conditions of finality hold as before.
        """
        for seen in self._by_seconds.values():
            seen.restore(heads, self._now())

    def _forget_from(self, number: int) -> None:
        for heads in self._by_seconds.values():
            heads.forget_from(number)
        self.pace.forget_from(number)

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
