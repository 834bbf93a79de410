"""The states of a transfer that Florin sends for others."""

from __future__ import annotations

from enum import StrEnum


class FacilitationState(StrEnum):
    """The state of a transfer: stored, in a transaction of ours, or ended."""

    WAITING = "waiting"
    SENT = "sent"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        """Return True if it never changes again."""
        return self in {FacilitationState.SUCCEEDED, FacilitationState.FAILED}
