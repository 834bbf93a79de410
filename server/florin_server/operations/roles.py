"""Workers that hold leases, and senders of transactions, as services see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from florin_server.domain.health import ChainHealth


class LeasedWorker(Protocol):
    """Settles what was accepted on one chain, or pays out there."""

    @property
    def head(self) -> int:
        """Return the chain's newest block; 0 if it does not know it, or another process works."""

    @property
    def seen_block(self) -> int:
        """Return the newest block that this process ever saw; 0 if it saw none."""

    @property
    def open_transactions(self) -> int:
        """Return how many of its transactions are neither final nor replaced."""

    @property
    def leases(self) -> Mapping[str, int]:
        """Return the leases that this process has for the work, each with its epoch.

        Empty until it has read everything that the former holder left.
        """

    def health(self) -> ChainHealth:
        """Return the health of the chain."""


class KeySender(Protocol):
    """Sends with one key on one chain."""

    @property
    def has_lease(self) -> bool:
        """Return True while this process has the lease of the key."""

    @property
    def is_paused(self) -> bool:
        """Return True while it begins nothing new."""

    def pause(self) -> None:
        """Start nothing new from now on; what was sent is followed to its end."""

    def resume(self) -> None:
        """Resume what was left."""
