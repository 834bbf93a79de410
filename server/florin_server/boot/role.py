"""What one process does of a service, and what it is handed by whoever started it."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Role:
    """Whether a process answers callers, and whether it settles, pays out and tidies up."""

    answers: bool = True
    settles: bool = True


EVERYTHING = Role()
ANSWERS = Role(settles=False)
SETTLES = Role(answers=False)


@dataclass(frozen=True, slots=True)
class Handed:
    """What a supervisor has for a process; the ports of gRPC are shared with others.

    The sockets listen. `owner` is by what name the process takes leases, and `dead` are names of
    those that have ended since. `restarts` counts how often a process in its place died and was
    started again.
    """

    http: socket.socket
    metrics: socket.socket | None
    owner: str
    dead: Sequence[str]
    restarts: int = 0
