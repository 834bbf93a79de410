"""Reference ids that give a test payment its outcome, so that a test needs no second call."""

from __future__ import annotations

from enum import StrEnum

PREFIX = "florin_test:"


class Trigger(StrEnum):
    """What a reference id asks for; live payments take none of it."""

    # the outcome comes with the payment
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    STALL = "stall"
    # the wallet is refused
    NO_OPTIONS = "no_options"
    BLOCKED = "blocked"  # as if the account were on a screening list
    QUOTE_EXPIRED = "quote_expired"
    DECLINED = "declined"  # the confirmed payment fails


def trigger(reference_id: str) -> Trigger | None:
    """What `florin_test:<trigger>` asks for; more may follow a further colon, to tell orders apart.

    None for any other text.
    """
    if not reference_id.startswith(PREFIX):
        return None
    name = reference_id.removeprefix(PREFIX).partition(":")[0]
    return next((one for one in Trigger if one.value == name), None)
