"""The role of one process in a service, and what it inherits from its parent."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProcessRole:
    """The duties of a process: answering callers; settling, paying out and tidying up."""

    serves_callers: bool = True
    runs_workers: bool = True


FULL_ROLE = ProcessRole()
SERVER_ROLE = ProcessRole(runs_workers=False)
WORKER_ROLE = ProcessRole(serves_callers=False)


@dataclass(frozen=True, slots=True)
class InheritedSockets:
    """The listening sockets of a process from its supervisor; it binds the shared gRPC port itself.

    `lease_owner` is the name under which the process takes leases, and `dead_owners` are names of
    those that have ended since. `restart_count` counts how often a process in its place died and
    was restarted.
    """

    http: socket.socket
    metrics: socket.socket | None
    lease_owner: str
    dead_owners: Sequence[str]
    restart_count: int = 0
