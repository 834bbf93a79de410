"""Answers that go wrong on purpose."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


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
        """Adds a fault."""
        self._planned.setdefault(method, deque()).append(fault)

    def next(self, method: str) -> Fault | None:
        """The fault that befalls this call."""
        planned = self._planned.get(method)
        if not planned:
            return None
        fault = planned[0]
        fault.times -= 1
        if fault.times <= 0:
            planned.popleft()
        return fault

    def clear(self) -> None:
        """Forgets everything planned."""
        self.lag = 0
        self._planned.clear()
