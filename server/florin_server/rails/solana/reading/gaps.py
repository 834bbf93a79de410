"""Transactions whose end a node cannot prove, as it no longer has all possible blocks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

# a node purges its oldest slots in steps, maybe between two answers of one batch; its usual step is
# 512 slots, once as many were added
_PURGE_BATCH = 1_000
# the most slots by which a node reads accounts ahead of transactions
_AHEAD_MAX = 8
# callers that wait for an end ask every ten seconds: an older question is over
_REPORTED_S = 60.0
# only a bound: no installation has more open transactions
_RECORDED_MAX = 1_000


class HistoryGaps:
    """The data that nodes no longer have. `now` returns monotonic seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._recorded: OrderedDict[str, float] = OrderedDict()
        self._used: OrderedDict[str, int] = OrderedDict()

    def is_absence_proven(self, tx_hash: str, since: int, first: int | None) -> bool:
        """Return True if a node without a transaction proves its absence; else record a gap.

        `since` is a slot before any that can include it, 0 if unknown. `first` is the first slot
        that the node still has, 0 if it keeps all, None if the node does not report it.
        """
        if first is not None and (not first or first + _PURGE_BATCH <= since):
            return True
        self._recorded[tx_hash] = self._now()
        self._recorded.move_to_end(tx_hash)
        while len(self._recorded) > _RECORDED_MAX:
            self._recorded.popitem(last=False)
        return False

    def is_long_used(self, tx_hash: str, slot: int) -> bool:
        """Return True if a transaction's nonce was already used some slots before a final slot.

        A node can read accounts ahead of the transactions that changed them. The first slot in
        which the nonce was used is remembered.
        """
        first = self._used.setdefault(tx_hash, slot)
        self._used.move_to_end(tx_hash)
        while len(self._used) > _RECORDED_MAX:
            self._used.popitem(last=False)
        return slot >= first + _AHEAD_MAX

    @property
    def problem(self) -> str:
        """Return in a sentence how many transactions need a node with all blocks; else empty."""
        after = self._now() - _REPORTED_S
        count = sum(at > after for at in self._recorded.values())
        if not count:
            return ""
        return (
            f"the node no longer has blocks that may contain our transactions, which stay open "
            f"until you add a node that keeps all blocks: {count}"
        )
