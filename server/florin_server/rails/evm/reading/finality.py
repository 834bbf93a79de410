"""The finality of an EVM chain's blocks: by time, by the chain's tag, and by count.

Every condition of the settings must hold. A node that lies about one condition makes nothing final
earlier than the others allow.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from math import ceil, inf
from typing import Final

from florin_server.rails.evm.reading.seen_heads import SeenHeads, Sighting
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.pace import BLOCK_S_MIN, PaceMeter
from florin_server.rails.types import ObservedHead

AWAIT_S: Final = 60.0  # beyond the finality wait: usually enough for a transaction to reach a block
# Tolerance for the measured pace's inaccuracy, as a fraction and at most in blocks: within it, no
# further block is required.
_INACCURACY: Final = 0.015
_INACCURACY_BLOCKS: Final = 0.5
_REPLACED_MAX: Final = 1000  # limit for a tag that stays behind, so that reads stay bounded
_UNTAGGED_MAX: Final = 10  # one node of several may lack the tag, or its answer, for a moment
_log = logging.getLogger(__name__)


class FinalityTracker:
    """Follow the heads of one chain and return the newest final block.

    A block is final if all of these hold: it has the `confirmations` of the settings; blocks of
    `final_after_s` seconds follow it by the measured pace and by their timestamps; this process saw
    it nearly as long ago; the node's `finality_tag` has reached it. `now` returns monotonic
    seconds.

    Methods with `after_s` also accept the seconds of larger amounts that the settings name; None
    means `final_after_s`.
    """

    def __init__(self, chain: EvmChainSettings, now: Callable[[], float] = time.monotonic) -> None:
        self.pace = PaceMeter()
        self._chain = chain
        self._now = now
        self._heads = SeenHeads(chain.final_after_s)
        longer = (step.final_after_s for step in chain.larger_amounts)
        self._by_seconds = {
            chain.final_after_s: self._heads,
            **{seconds: SeenHeads(seconds) for seconds in longer},
        }
        self._tagged: int | None = None
        self._above_tag = 0  # blocks above the block that the node calls final
        self._untagged = 0  # heads in a row without a tagged block
        self._awaited_until = -inf

    @property
    def is_timed(self) -> bool:
        """Return whether more than a count of blocks decides."""
        return self._chain.final_after_s > 0 or self._chain.finality_tag != "none"

    @property
    def is_awaited(self) -> bool:
        """Return whether a recent transaction of ours may not be final yet."""
        return self._now() < self._awaited_until

    def await_transaction(self) -> None:
        """Record that a transaction of ours was sent."""
        self._awaited_until = self._now() + self._chain.final_after_s + AWAIT_S

    @property
    def get_problem(self) -> str:
        """Return in a sentence why no block becomes final; empty if blocks can become final."""
        if self._untagged <= _UNTAGGED_MAX:
            return ""
        tag = self._chain.finality_tag
        return (
            f"{self._chain.name}: the nodes name no `{tag}` block, so no payment becomes final: "
            "use other nodes, or change finality_tag and final_after_s"
        )

    @property
    def get_depth(self) -> int:
        """Return the confirmations of a final block, its own included, at the measured pace."""
        return self.depth_of()

    def depth_of(self, after_s: int | None = None) -> int:
        """Return the confirmations, its own block included, that make up a number of seconds."""
        least, pace = self._chain.confirmations, self.pace.block_s
        seconds = self._chain.final_after_s if after_s is None else after_s
        if not seconds or pace is None:
            return least
        blocks = seconds / pace
        return max(least, ceil(blocks - min(_INACCURACY * blocks, _INACCURACY_BLOCKS)) + 1)

    @property
    def get_reorg_depth(self) -> int:
        """Return how many blocks, the head included, can be replaced before they are final.

        Until the pace is measured, the fastest plausible pace is assumed, so that no search starts
        too near the head and nothing is forgotten too early. For larger amounts, which are final
        later, an earlier process's measure is used: otherwise there would be too many blocks to
        read.
        """
        longest_s = max(self._by_seconds)
        depth = self.depth_of(longest_s)
        if self.pace.measured_s is None:
            usual_s = longest_s if self.pace.block_s is None else self._chain.final_after_s
            depth = max(depth, ceil(usual_s / BLOCK_S_MIN) + 1 if usual_s else 0)
        return max(depth, min(self._above_tag, _REPLACED_MAX))

    def count_blocks(self, seconds: float) -> int:
        """Return how many blocks come in a number of seconds at the measured pace.

        Return 0 before the pace is known, and where `confirmations` alone decide.
        """
        pace = self.pace.block_s if self.is_timed else None
        return 0 if pace is None else ceil(seconds / pace)

    def record_head(self, number: int, block_hash: str, block_time: int, tagged: int | None) -> int:
        """Record a head and the tagged block, if any; return the newest final block.

        `tagged` is None if the node named no block. The result is -1 while no block is final.
        """
        seen = Sighting(number, block_hash, block_time, self._now())
        self._forget_from(number + 1)
        newest = self._heads.newest
        if newest is not None and newest.number == number and newest.hash != block_hash:
            self.forget_replaced(number, block_hash)
            newest = self._heads.newest
        if newest is None or newest.number < number:
            for heads in self._by_seconds.values():
                heads.add(seen)
            self.pace.record_head(number, seen.at, block_time)
        self._record_tag(number, tagged)
        for seconds, heads in self._by_seconds.items():
            by_count = number - self.depth_of(seconds) + 1
            heads.deepen(seen, by_count, self._least_age_s(seconds))
        return self.get_final_block(number)

    def get_final_block(self, head: int, after_s: int | None = None) -> int:
        """Return the newest final block for a given head; -1 if no block is final."""
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
        # timestamps are whole seconds; once the pace is known, the block count compensates
        return after_s if not after_s or self.pace.measured_s else after_s + 1

    def forget_replaced(self, number: int, block_hash: str) -> None:
        """Forget when a block and its successors were seen if another block replaced it."""
        if any(heads.holds_other(number, block_hash) for heads in self._by_seconds.values()):
            self._forget_from(number)

    def list_observed_heads(self) -> list[ObservedHead]:
        """Return heads that a later process can restore, the oldest first: at most 16.

        They span `final_after_s`. Empty where the time since a block was seen decides nothing.
        """
        return self._heads.list_kept(self._now()) if self._chain.final_after_s else []

    def restore_observed_heads(self, heads: Sequence[ObservedHead]) -> None:
        """Count the age of blocks from when an earlier process saw them.

        `heads` are blocks of the current chain, the oldest first. They are ignored where this
        process saw blocks as old itself. All other conditions of finality still apply.
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
            # a tag above its own head is wrong, so the earlier tag remains
            _log.warning("%s: the %s block %d is above the head", self._chain.name, name, tagged)
            return
        if tagged is not None and self._tagged is not None and tagged < self._tagged:
            _log.warning("%s: the %s block went back to %d", self._chain.name, name, tagged)
        self._untagged = self._untagged + 1 if tagged is None else 0
        self._tagged = tagged if tagged is not None else self._tagged
        self._above_tag = 0 if self._tagged is None else head - self._tagged
