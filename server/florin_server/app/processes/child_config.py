"""The configuration that a supervisor sends to each process at its start."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from florin_server.app.role import InheritedSockets, ProcessRole

# the message of a process once it answers, and then this often while it works; and the message to
# it when another has taken its place
READY_LINE: Final = b"ready\n"
ALIVE_LINE: Final = b"alive\n"
HEARTBEAT_S: Final = 1.0
DRAIN_LINE: Final = b"make way\n"


@dataclass(frozen=True, slots=True)
class ChildConfig:
    """One line of JSON: overrides of settings, sockets by their numbers, whose leases are whose.

    `number` is its place among the processes, from 1. `store` is the database that all processes
    have; `metrics` is None if the operator wants none.
    """

    overrides: Mapping[str, Any]
    settles: bool
    store: str
    http: int
    metrics: int | None
    owner: str
    dead: Sequence[str]
    restarts: int = 0
    number: int = 1

    def to_line(self) -> bytes:
        """Return it in the form of the pipe."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Parse the form of the pipe."""
        return cls(**json.loads(line))

    @property
    def role(self) -> ProcessRole:
        """Return the role of the process."""
        return ProcessRole(runs_workers=self.settles)

    def take_sockets(self) -> InheritedSockets:
        """Return the sockets; once, in the configured process."""
        metrics = None if self.metrics is None else socket.socket(fileno=self.metrics)
        http = socket.socket(fileno=self.http)
        return InheritedSockets(http, metrics, self.owner, self.dead, self.restarts)

    def list_socket_numbers(self) -> list[int]:
        """Return the file descriptors that the process inherits."""
        return [self.http] if self.metrics is None else [self.http, self.metrics]
