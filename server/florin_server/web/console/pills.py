"""Words and signs of states in a console: a word, an icon and a color, always all three."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class StatePill:
    """A state for people: `look` is a class of the style sheet, `sign` the name of an icon."""

    word: str
    look: str
    sign: str


_PLAIN: Final = "plain"
# kinds of enums, then their values in words
_PILLS: Final[Mapping[str, Mapping[str, StatePill]]] = {
    "payment": {
        "requires action": StatePill("Waiting", _PLAIN, "clock"),
        "processing": StatePill("Processing", "info", "again"),
        "succeeded": StatePill("Paid", "good", "check"),
        "failed": StatePill("Failed", "bad", "cross"),
        "expired": StatePill("Expired", _PLAIN, "clock"),
        "cancelled": StatePill("Cancelled", _PLAIN, "ban"),
    },
    "refund": {
        "pending": StatePill("Waiting", _PLAIN, "clock"),
        "processing": StatePill("Sent", "info", "send"),
        "succeeded": StatePill("Refunded", _PLAIN, "undo"),
        "failed": StatePill("Failed", "bad", "cross"),
    },
    "payout": {
        "waiting": StatePill("Waiting", _PLAIN, "clock"),
        "submitted": StatePill("Sent", "info", "send"),
        "done": StatePill("Done", "good", "check"),
        "refused": StatePill("Cancelled", _PLAIN, "ban"),
    },
    "held": {
        "held": StatePill("Needs a decision", "warn", "hold"),
        "released": StatePill("Released", "good", "check"),
        "returned": StatePill("Returned", _PLAIN, "undo"),
        "kept": StatePill("Kept", _PLAIN, "hold"),
        "undone": StatePill("Undone", "warn", "alert"),
    },
    "quarantine": {
        "set aside": StatePill("Needs a decision", "warn", "alert"),
        "retried": StatePill("Retried", "info", "again"),
        "resolved": StatePill("Resolved", "good", "check"),
    },
    "verdict": {
        "exact": StatePill("Matches", "good", "check"),
        "under way": StatePill("Under way", "info", "again"),
        "not begun": StatePill("Not started", _PLAIN, "clock"),
        "unbooked": StatePill("Differs", "warn", "alert"),
        "missing": StatePill("Missing", "bad", "cross"),
        "not read": StatePill("Not read", "warn", "alert"),
    },
    "condition": {
        "ok": StatePill("Resolved", "good", "check"),
        "notice": StatePill("Notice", "info", "info"),
        "warning": StatePill("Warning", "warn", "alert"),
        "critical": StatePill("Critical", "bad", "alert"),
    },
    "merchant": {
        "active": StatePill("Active", "good", "check"),
        "inactive": StatePill("Inactive", _PLAIN, "pause"),
        "suspended": StatePill("Suspended", "bad", "ban"),
    },
    "partner": {
        "active": StatePill("Active", "good", "check"),
        "suspended": StatePill("Suspended", "bad", "ban"),
    },
    "endpoint": {
        "active": StatePill("Active", "good", "check"),
        "paused": StatePill("Paused", "warn", "pause"),
    },
}
# states that no enum has
_SHARED: Final[Mapping[str, StatePill]] = {
    "refunding": StatePill("Refunding", "info", "undo"),
    "refunded": StatePill("Refunded", _PLAIN, "undo"),
    "partly refunded": StatePill("Partly refunded", _PLAIN, "undo"),
    "needs a decision": StatePill("Needs a decision", "warn", "alert"),
    "retrying": StatePill("Retrying", "warn", "again"),
    "healthy": StatePill("Healthy", "good", "check"),
    "behind": StatePill("Behind", "warn", "clock"),
    "down": StatePill("Down", "bad", "cross"),
    "low coin": StatePill("Low coin", "warn", "alert"),
    "not used": StatePill("Not used", "bad", "cross"),
    "check it": StatePill("Check it", "warn", "alert"),
    "active": StatePill("Active", "good", "check"),
    "paused": StatePill("Paused", "warn", "pause"),
    "revoked": StatePill("Revoked", _PLAIN, "ban"),
    "delivered": StatePill("Delivered", "good", "check"),
    "not delivered": StatePill("Failed", "bad", "cross"),
    "live": StatePill("Live", "good", "bolt"),
    "test": StatePill("Test", "warn", "flask"),
}


def list_payment_pills() -> list[StatePill]:
    """Return the pills that a payment can have, for scripts to copy."""
    refunds = ("refunding", "refunded", "partly refunded")
    return [*_PILLS["payment"].values(), *(_SHARED[state] for state in refunds)]


def get_pill(kind: str, state: str) -> StatePill:
    """Return the pill of a state of an enum; of an unknown one, its name."""
    return _PILLS.get(kind, {}).get(state) or find_pill(state)


def find_pill(state: str) -> StatePill:
    """Return the pill of a state that no enum has; of an unknown one, its name."""
    return _SHARED.get(state) or StatePill(state.capitalize() or "Unknown", _PLAIN, "info")
