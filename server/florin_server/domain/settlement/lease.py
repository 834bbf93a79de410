"""Leases: which process signs with a key, until when, and the number that fences off the others."""

from __future__ import annotations

from dataclasses import dataclass

# the duration of a lease without renewal
LEASE_S = 25
_HOST_CHARS = 63


@dataclass(frozen=True, slots=True)
class Lease:
    """A stored lease; `holder` is empty while no process has it.

    `epoch` rises with every holder and with every release by the operator: what was signed under a
    lower epoch is no longer stored.
    """

    name: str
    holder: str
    until_us: int
    epoch: int

    @property
    def renewed_at_us(self) -> int:
        """Return when its holder last acquired or renewed it, microseconds since the Unix epoch."""
        return max(0, self.until_us - LEASE_S * 1_000_000)


def name_holder(host: str, token: bytes) -> str:
    """Return the name under which one process takes leases: its machine, and a random token."""
    return f"{host[:_HOST_CHARS]}:{token.hex()}"
