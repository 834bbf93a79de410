"""Transactions whose end a node cannot tell, for it has forgotten blocks that may hold them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

# a node purges its oldest slots in steps, maybe between two answers of one batch; its usual step is
# 512 of them, once as many have been added
_PURGED_AT_ONCE = 1_000
# whoever waits for an end asks every ten seconds: what was not asked for so long is over
_TOLD_S = 60.0
# only to be counted: more are open at once nowhere
_NOTED_MAX = 1_000


class Gaps:
    """What nodes have forgotten too early. `now` tells monotonic seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._noted: OrderedDict[str, float] = OrderedDict()

    def proves_absence(self, tx_hash: str, since: int, first: int | None) -> bool:
        """True if a node that does not know a transaction can say so; else it is told as a gap.

        `since` is a slot before any that can hold it, 0 if none is known. `first` is the first slot
        that the node has not forgotten, 0 if it keeps all, None if it does not tell.
        """
        if first is not None and (not first or first + _PURGED_AT_ONCE <= since):
            return True
        self._noted[tx_hash] = self._now()
        self._noted.move_to_end(tx_hash)
        while len(self._noted) > _NOTED_MAX:
            self._noted.popitem(last=False)
        return False

    @property
    def problem(self) -> str:
        """What waits for a node that has not forgotten, in a sentence; empty if nothing does."""
        after = self._now() - _TOLD_S
        count = sum(at > after for at in self._noted.values())
        if not count:
            return ""
        return (
            f"the node has forgotten blocks that may hold transactions of ours, which stay open "
            f"until a node is asked that keeps all blocks: {count}"
        )
