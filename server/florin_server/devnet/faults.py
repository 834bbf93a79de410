"""Answers that go wrong on purpose."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import orjson

from florin_server.devnet.errors import RpcFault

# more than any test arms; whoever calls may arm them, and what they tell is kept in memory
FAULTS_MAX: Final = 256
TOLD_BYTES_MAX: Final = 256 * 1024


class Effect(StrEnum):
    """What happens to a call."""

    ERROR = "error"  # refused; nothing was done
    LATE_ERROR = "late_error"  # done, and then answered with an error
    DROP = "drop"  # a transaction's hash is answered, but nobody keeps the transaction
    NULL = "null"  # answered with null; nothing was done
    LIE = "lie"  # answered with something made up; nothing was done
    DELAY = "delay"  # done, and answered late


@dataclass(slots=True)
class Fault:
    """An effect on the next `times` calls of a method."""

    effect: Effect
    times: int
    message: str
    code: int
    delay_s: float
    result: Any = None  # what a lie tells


class Faults:
    """What is planned, by method; the first planned is the first to happen.

    `lag` is how many blocks behind the chain is told.
    """

    def __init__(self) -> None:
        self.lag = 0
        self._planned: dict[str, deque[Fault]] = {}

    def plan(self, method: str, fault: Fault) -> None:
        """Adds a fault; RpcFault if there are too many, or what it tells is too long."""
        if sum(map(len, self._planned.values())) >= FAULTS_MAX:
            raise RpcFault(f"{FAULTS_MAX} faults are armed already: clear them first")
        if len(orjson.dumps([fault.result, fault.message])) > TOLD_BYTES_MAX:
            raise RpcFault(f"a fault tells no more than {TOLD_BYTES_MAX} bytes")
        self._planned.setdefault(method, deque()).append(fault)

    def listed(self) -> list[dict[str, Any]]:
        """What is armed, as whoever armed it would say it; of a method, the next one first."""
        found: list[dict[str, Any]] = [
            {"kind": "answer", "method": method, "effect": fault.effect, "times": fault.times}
            for method, planned in self._planned.items()
            for fault in planned
        ]
        if self.lag:
            found.append({"kind": "lag", "blocks": self.lag})
        return found

    def next(self, method: str) -> Fault | None:
        """The fault that befalls this call."""
        planned = self._planned.get(method)
        if not planned:
            return None
        fault = planned[0]
        fault.times -= 1
        if fault.times <= 0:
            planned.popleft()
            if not planned:
                del self._planned[method]
        return fault

    def clear(self) -> None:
        """Forgets all answers that were to go wrong; a lag stays."""
        self._planned.clear()
