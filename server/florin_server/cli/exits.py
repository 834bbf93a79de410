"""Exit statuses of commands: one for each reaction that a script can need."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class ExitStatus(IntEnum):
    """The exit statuses. Releases can add numbers, but never change the meaning of one."""

    DONE = 0
    REFUSED = 1
    USAGE_ERROR = 2
    NOT_FOUND = 3
    FORBIDDEN = 4
    UNREACHABLE = 5
    WRONG_STATE = 6
    UNPAID = 7
    UNTRUSTED_ISSUER = 8
    INTERRUPTED = 130


EXIT_MEANINGS: Mapping[ExitStatus, str] = {
    ExitStatus.DONE: "The command succeeded.",
    ExitStatus.REFUSED: "The command was refused for a reason that is not listed below, or a "
    "check found a problem.",
    ExitStatus.USAGE_ERROR: "The arguments, the options or the settings are not valid.",
    ExitStatus.NOT_FOUND: "The payment, merchant, key, partner, wallet or executor does not "
    "exist, or belongs to another account. For a receipt: the chain does not confirm it.",
    ExitStatus.FORBIDDEN: "The API key or the app id is missing, unknown or revoked, or does not "
    "allow this.",
    ExitStatus.UNREACHABLE: "No Florin runs there, or it did not answer in time. It may still "
    "have executed the request: repeat the same command.",
    ExitStatus.WRONG_STATE: "The state of the payment or other object does not allow this now, or "
    "another change came first.",
    ExitStatus.UNPAID: "The command waited for a payment or a refund, and it ended without "
    "success.",
    ExitStatus.UNTRUSTED_ISSUER: "The receipt is consistent, but only the receipt itself names its "
    "issuer: name the issuer, the issuer's keys or one key.",
    ExitStatus.INTERRUPTED: "Ctrl-C interrupted the command.",
}

# by the names of gRPC statuses; every other one is REFUSED
_EXIT_BY_GRPC_STATUS: Mapping[str, ExitStatus] = {
    "NOT_FOUND": ExitStatus.NOT_FOUND,
    "UNAUTHENTICATED": ExitStatus.FORBIDDEN,
    "PERMISSION_DENIED": ExitStatus.FORBIDDEN,
    "UNAVAILABLE": ExitStatus.UNREACHABLE,
    "DEADLINE_EXCEEDED": ExitStatus.UNREACHABLE,
    "FAILED_PRECONDITION": ExitStatus.WRONG_STATE,
    "ALREADY_EXISTS": ExitStatus.WRONG_STATE,
    "ABORTED": ExitStatus.WRONG_STATE,
}


def from_grpc_status(status: str) -> ExitStatus:
    """Return the exit status for the gRPC status, by its name, of a refused call."""
    return _EXIT_BY_GRPC_STATUS.get(status, ExitStatus.REFUSED)
