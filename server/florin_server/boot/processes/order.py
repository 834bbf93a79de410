"""What a supervisor tells each of its processes when it starts it."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from florin_server.boot.role import Handed, Role

# what the process says once it answers, and then as often as this for as long as it works; what it
# is told when another has taken its place
READY: Final = b"ready\n"
ALIVE: Final = b"alive\n"
ALIVE_S: Final = 1.0
MAKE_WAY: Final = b"make way\n"


@dataclass(frozen=True, slots=True)
class Order:
    """One line of JSON: settings that are given, sockets by their numbers, whose leases are whose.

    `number` is its place among the processes, from 1. `store` is the database that all processes
    have; `metrics` is None if the operator wants none.
    """

    given: Mapping[str, Any]
    settles: bool
    store: str
    http: int
    metrics: int | None
    owner: str
    dead: Sequence[str]
    restarts: int = 0
    number: int = 1

    def line(self) -> bytes:
        """As it is sent."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def of(cls, line: bytes) -> Self:
        """As it was sent."""
        return cls(**json.loads(line))

    @property
    def role(self) -> Role:
        """What the process does."""
        return Role(settles=self.settles)

    def handed(self) -> Handed:
        """The sockets; once in the process that was told."""
        metrics = None if self.metrics is None else socket.socket(fileno=self.metrics)
        http = socket.socket(fileno=self.http)
        return Handed(http, metrics, self.owner, self.dead, self.restarts)

    def sockets(self) -> list[int]:
        """The numbers that the process has to inherit."""
        return [self.http] if self.metrics is None else [self.http, self.metrics]
