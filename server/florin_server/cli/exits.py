"""What a command's end says: its exit status, one for each thing that a script does next."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Exit(IntEnum):
    """Exit statuses. They are kept: numbers may be added, and none gets another meaning."""

    DONE = 0
    REFUSED = 1
    MISUSED = 2
    NOT_FOUND = 3
    FORBIDDEN = 4
    UNREACHABLE = 5
    STATE = 6
    UNPAID = 7
    UNVOUCHED = 8
    INTERRUPTED = 130


MEANING: Mapping[Exit, str] = {
    Exit.DONE: "The command did its work.",
    Exit.REFUSED: "It was refused for any reason that is not below, or a check found something "
    "wrong.",
    Exit.MISUSED: "It was called wrongly, or the settings are not valid.",
    Exit.NOT_FOUND: "There is no such payment, merchant, key, partner, wallet or executor, or it "
    "is somebody else's; or the chain knows nothing of what a receipt says.",
    Exit.FORBIDDEN: "The key or the app id is missing, unknown or revoked, or may not do this.",
    Exit.UNREACHABLE: "No Florin runs there, or it gave no answer in time. What was asked for may "
    "have been done: the same command may be given again.",
    Exit.STATE: "The payment, or what else it is about, does not allow this now, or something else "
    "was first.",
    Exit.UNPAID: "What was waited for has ended, and not as it should: a payment is not paid, or a "
    "refund not paid back.",
    Exit.UNVOUCHED: "Everything is true by the receipt's own word, and nothing else says whose it "
    "is: name its issuer, the issuer's keys or one key.",
    Exit.INTERRUPTED: "It was interrupted, by Ctrl-C.",
}

# gRPC statuses by name; whatever is not here was refused
_STATUSES: Mapping[str, Exit] = {
    "NOT_FOUND": Exit.NOT_FOUND,
    "UNAUTHENTICATED": Exit.FORBIDDEN,
    "PERMISSION_DENIED": Exit.FORBIDDEN,
    "UNAVAILABLE": Exit.UNREACHABLE,
    "DEADLINE_EXCEEDED": Exit.UNREACHABLE,
    "FAILED_PRECONDITION": Exit.STATE,
    "ALREADY_EXISTS": Exit.STATE,
    "ABORTED": Exit.STATE,
}


def of_status(status: str) -> Exit:
    """The end of a command that a server refused with a gRPC status, by its name."""
    return _STATUSES.get(status, Exit.REFUSED)
