"""Deliberately wrong answers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import orjson

from florin_sandbox.devnet.errors import RpcFault

# more than any test arms; any caller can arm faults, and their results are kept in memory
FAULTS_MAX: Final = 256
RESULT_BYTES_MAX: Final = 256 * 1024


class FaultEffect(StrEnum):
    """The effect on a call."""

    ERROR = "error"  # refused; nothing was done
    LATE_ERROR = "late_error"  # done, and then answered with an error
    DROP = "drop"  # the transaction's hash is returned, but the transaction is dropped
    NULL = "null"  # answered with null; nothing was done
    LIE = "lie"  # answered with a false result; nothing was done
    DELAY = "delay"  # done, and answered late


@dataclass(slots=True)
class PlannedFault:
    """An effect on the next `times` calls of a method."""

    effect: FaultEffect
    times: int
    message: str
    code: int
    delay_s: float
    result: Any = None  # the result of a lie


class FaultPlan:
    """The planned faults by method; the first planned happens first.

    `lag` is the number of blocks by which reads lag behind.
    """

    def __init__(self) -> None:
        self.lag = 0
        self._faults: dict[str, deque[PlannedFault]] = {}

    def add_fault(self, method: str, fault: PlannedFault) -> None:
        """Add a fault; raise RpcFault if there are too many, or its result is too long."""
        if sum(map(len, self._faults.values())) >= FAULTS_MAX:
            raise RpcFault(f"{FAULTS_MAX} faults are already armed: clear them first")
        if len(orjson.dumps([fault.result, fault.message])) > RESULT_BYTES_MAX:
            raise RpcFault(f"the result of a fault is limited to {RESULT_BYTES_MAX} bytes")
        self._faults.setdefault(method, deque()).append(fault)

    def list_faults(self) -> list[dict[str, Any]]:
        """List armed faults in the form that arms them; of a method, the next fault first."""
        faults: list[dict[str, Any]] = [
            {"kind": "answer", "method": method, "effect": fault.effect, "times": fault.times}
            for method, planned in self._faults.items()
            for fault in planned
        ]
        if self.lag:
            faults.append({"kind": "lag", "blocks": self.lag})
        return faults

    def take_fault(self, method: str) -> PlannedFault | None:
        """Return the fault of this call; None if none is planned."""
        planned = self._faults.get(method)
        if not planned:
            return None
        fault = planned[0]
        fault.times -= 1
        if fault.times <= 0:
            planned.popleft()
            if not planned:
                del self._faults[method]
        return fault

    def clear_faults(self) -> None:
        """Forget all planned faults; a lag stays."""
        self._faults.clear()
