"""Accounts with code that did not accept a signature, and may never accept one.

Some accounts hash what they are asked about again (replay-safe wrappers of EIP-7702 accounts): what
their key signs for a token never verifies there, though they answer questions as signers do.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final

# Anybody can hand in a wrong signature for an account. What follows is a second option beside the
# first, for an hour, for so many accounts.
_KEPT_S: Final = 3600.0
_KEPT_MAX: Final = 1000


class Mismatches:
    """Those of one chain, in this process. `now` returns monotonic seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since: OrderedDict[str, float] = OrderedDict()

    def record(self, address: str) -> None:
        """Remember an account (lower-case address) that did not accept a signature."""
        self._since[address] = self._now()
        self._since.move_to_end(address)
        if len(self._since) > _KEPT_MAX:
            self._since.popitem(last=False)

    def select(self, addresses: Collection[str]) -> frozenset[str]:
        """Return which of the addresses are remembered."""
        least = self._now() - _KEPT_S
        return frozenset(one for one in addresses if self._since.get(one, least) > least)
