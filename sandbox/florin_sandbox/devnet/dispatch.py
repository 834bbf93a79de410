"""JSON-RPC 2.0 envelopes: one call or a batch in, its answers out, with planned faults."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from florin_sandbox.devnet.errors import DevChainError, RpcFault, invalid_params_fault
from florin_sandbox.devnet.faults import FaultEffect, FaultPlan, PlannedFault

MethodEntry = tuple[Callable[..., Any], int, int]  # function, least and most arguments

BATCH_MAX: Final = 1000  # as in geth

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DelayedAnswer:
    """An answer, and the seconds by which to delay it deliberately."""

    payload: bytes
    delay_s: float


class RpcDispatcher:
    """Answer calls from a table of methods. Used by one thread.

    `answer_dropped` returns the answer to a transaction that is dropped.
    """

    def __init__(
        self,
        methods: Mapping[str, MethodEntry],
        faults: FaultPlan,
        answer_dropped: Callable[[list[Any]], Any],
    ) -> None:
        self._methods = methods
        self._faults = faults
        self._answer_dropped = answer_dropped
        self._delay_s = 0.0

    def handle(self, payload: bytes) -> DelayedAnswer:
        """Return the answer to a request; empty if it contains only notifications."""
        self._delay_s = 0.0
        try:
            request = orjson.loads(payload)
        except orjson.JSONDecodeError:
            return DelayedAnswer(
                orjson.dumps(_build_error(None, RpcFault("parse error", -32700))), 0
            )
        if isinstance(request, list):
            answer: Any = self._answer_batch(request)
        else:
            answer = self._answer(request)
        body = b"" if answer is None else orjson.dumps(answer)
        return DelayedAnswer(body, self._delay_s)

    def _answer_batch(self, requests: list[Any]) -> Any:
        if not requests:
            return _build_error(None, RpcFault("empty batch", -32600))
        if len(requests) > BATCH_MAX:
            return _build_error(None, RpcFault("batch too large", -32600))
        answers = [self._answer(request) for request in requests]
        return [answer for answer in answers if answer is not None] or None

    def _answer(self, request: Any) -> dict[str, Any] | None:
        if not isinstance(request, dict) or not isinstance(request.get("method"), str):
            return _build_error(None, RpcFault("invalid request", -32600))
        try:
            answer = {
                "jsonrpc": "2.0",
                "id": request.get("id"),
                "result": self._call(request["method"], request.get("params")),
            }
        except RpcFault as fault:
            answer = _build_error(request.get("id"), fault)
        except (DevChainError, sqlite3.Error) as error:
            raise DevChainError(f"the chain stopped: {error}") from error
        except Exception as error:  # noqa: BLE001  (a node survives any request)
            _log.warning("%s failed", request["method"], exc_info=error)
            internal = RpcFault(f"internal error: {type(error).__name__}", -32603)
            answer = _build_error(request.get("id"), internal)
        return answer if "id" in request else None

    def _call(self, method: str, params: Any) -> Any:
        entry = self._methods.get(method)
        if entry is None:
            raise RpcFault(f"the method {method} does not exist/is not available", -32601)
        function, least, most = entry
        passed = parse_arguments(params, least, most)
        fault = None if method.startswith("florin_") else self._faults.take_fault(method)
        if fault is None:
            return function(*passed)
        return self._call_with_fault(fault, entry, passed)

    def _call_with_fault(
        self, fault: PlannedFault, method: MethodEntry, arguments: list[Any]
    ) -> Any:
        if fault.effect is FaultEffect.ERROR:
            raise RpcFault(fault.message, fault.code)
        if fault.effect is FaultEffect.NULL:
            return None
        if fault.effect is FaultEffect.LIE:
            return fault.result
        if fault.effect is FaultEffect.DROP:
            return self._answer_dropped(arguments)
        result = method[0](*arguments)
        if fault.effect is FaultEffect.LATE_ERROR:
            raise RpcFault(fault.message, fault.code)
        self._delay_s = max(self._delay_s, fault.delay_s)
        return result


def parse_arguments(params: Any, count_min: int, count_max: int) -> list[Any]:
    """Return positional arguments, as many as the method takes."""
    if params is not None and not isinstance(params, list):
        raise invalid_params_fault("non-array args")
    arguments: list[Any] = list(params or [])
    while len(arguments) > count_min and arguments[-1] is None:
        arguments.pop()
    if len(arguments) < count_min:
        raise invalid_params_fault(f"missing value for required argument {len(arguments)}")
    if len(arguments) > count_max:
        raise invalid_params_fault(f"too many arguments, want at most {count_max}")
    return arguments


def _build_error(request_id: Any, fault: RpcFault) -> dict[str, Any]:
    error: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return {"jsonrpc": "2.0", "id": request_id, "error": error}
