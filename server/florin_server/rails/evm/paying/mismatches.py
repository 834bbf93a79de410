"""Accounts with code that did not accept a signature, and may never accept a signature.

Some accounts hash the digest again (replay-safe wrappers of EIP-7702 accounts). Their key's
signature for a token never verifies there, though they answer probes like accounts that sign.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final

# Anyone can submit a wrong signature for an account. The only effect is a second option beside the
# first, for an hour, for a limited number of accounts.
_RECORDED_S: Final = 3600.0
_RECORDED_MAX: Final = 1000


class SignatureMismatches:
    """The mismatches of one chain, in this process. `now` returns monotonic seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._recorded_at: OrderedDict[str, float] = OrderedDict()

    def record_mismatch(self, address: str) -> None:
        """Remember an account (lower-case address) that did not accept a signature."""
        self._recorded_at[address] = self._now()
        self._recorded_at.move_to_end(address)
        if len(self._recorded_at) > _RECORDED_MAX:
            self._recorded_at.popitem(last=False)

    def select_recorded(self, addresses: Collection[str]) -> frozenset[str]:
        """Return which of the addresses are remembered."""
        least = self._now() - _RECORDED_S
        return frozenset(
            address for address in addresses if self._recorded_at.get(address, least) > least
        )
