"""Reference ids that give a test payment its outcome, so that a test needs no second call."""

from __future__ import annotations

from enum import StrEnum

TRIGGER_PREFIX = "florin_test:"


class SandboxTrigger(StrEnum):
    """The test outcome that a reference id requests; live payments ignore it."""

    # the payment starts with its outcome
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    STALL = "stall"
    # options and fetch are refused
    NO_OPTIONS = "no_options"
    BLOCKED = "blocked"  # as if the account were on a screening list
    QUOTE_EXPIRED = "quote_expired"
    DECLINED = "declined"  # the confirmed payment fails


def find_trigger(reference_id: str) -> SandboxTrigger | None:
    """Return the outcome that `florin_test:<trigger>` requests; None for any other text.

    After another colon more text can follow, to distinguish orders.
    """
    if not reference_id.startswith(TRIGGER_PREFIX):
        return None
    name = reference_id.removeprefix(TRIGGER_PREFIX).partition(":")[0]
    return next((trigger for trigger in SandboxTrigger if trigger.value == name), None)
