"""JSON-RPC 2.0 envelopes: one call or a batch in, its answers out; faults on the way."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from florin_server.devnet.errors import DevChainError, RpcFault, bad_params
from florin_server.devnet.faults import Effect, Fault, Faults

Method = tuple[Callable[..., Any], int, int]  # function, least and most arguments

BATCH_MAX: Final = 1000  # as geth

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send back, and how long to hold it back on purpose."""

    payload: bytes
    delay_s: float


class Dispatcher:
    """Answers calls from a table of methods. Used by one thread.

    `dropped` gives the answer to a transaction that nobody keeps.
    """

    def __init__(
        self,
        table: Mapping[str, Method],
        faults: Faults,
        dropped: Callable[[list[Any]], Any],
    ) -> None:
        self._table = table
        self._faults = faults
        self._dropped = dropped
        self._delay_s = 0.0

    def handle(self, payload: bytes) -> Answer:
        """The answer to a request; empty if it holds nothing but notifications."""
        self._delay_s = 0.0
        try:
            request = orjson.loads(payload)
        except orjson.JSONDecodeError:
            return Answer(orjson.dumps(_error(None, RpcFault("parse error", -32700))), 0)
        if isinstance(request, list):
            answer: Any = self._batch(request)
        else:
            answer = self._answer_of(request)
        body = b"" if answer is None else orjson.dumps(answer)
        return Answer(body, self._delay_s)

    def _batch(self, requests: list[Any]) -> Any:
        if not requests:
            return _error(None, RpcFault("empty batch", -32600))
        if len(requests) > BATCH_MAX:
            return _error(None, RpcFault("batch too large", -32600))
        answers = [self._answer_of(request) for request in requests]
        return [answer for answer in answers if answer is not None] or None

    def _answer_of(self, request: Any) -> dict[str, Any] | None:
        if not isinstance(request, dict) or not isinstance(request.get("method"), str):
            return _error(None, RpcFault("invalid request", -32600))
        try:
            answer = {
                "jsonrpc": "2.0",
                "id": request.get("id"),
                "result": self._result(request["method"], request.get("params")),
            }
        except RpcFault as fault:
            answer = _error(request.get("id"), fault)
        except (DevChainError, sqlite3.Error) as error:
            raise DevChainError(f"the chain cannot go on: {error}") from error
        except Exception as error:  # noqa: BLE001  (a node stays up whatever a caller sends)
            _log.warning("%s failed", request["method"], exc_info=error)
            internal = RpcFault(f"internal error: {type(error).__name__}", -32603)
            answer = _error(request.get("id"), internal)
        return answer if "id" in request else None

    def _result(self, method: str, given: Any) -> Any:
        entry = self._table.get(method)
        if entry is None:
            raise RpcFault(f"the method {method} does not exist/is not available", -32601)
        function, least, most = entry
        passed = arguments(given, least, most)
        fault = None if method.startswith("florin_") else self._faults.next(method)
        if fault is None:
            return function(*passed)
        return self._faulty(fault, entry, passed)

    def _faulty(self, fault: Fault, method: Method, passed: list[Any]) -> Any:
        if fault.effect is Effect.ERROR:
            raise RpcFault(fault.message, fault.code)
        if fault.effect is Effect.NULL:
            return None
        if fault.effect is Effect.LIE:
            return fault.result
        if fault.effect is Effect.DROP:
            return self._dropped(passed)
        result = method[0](*passed)
        if fault.effect is Effect.LATE_ERROR:
            raise RpcFault(fault.message, fault.code)
        self._delay_s = max(self._delay_s, fault.delay_s)
        return result


def arguments(given: Any, least: int, most: int) -> list[Any]:
    """Positional arguments, as many as the method takes."""
    if given is not None and not isinstance(given, list):
        raise bad_params("non-array args")
    found: list[Any] = list(given or [])
    while len(found) > least and found[-1] is None:
        found.pop()
    if len(found) < least:
        raise bad_params(f"missing value for required argument {len(found)}")
    if len(found) > most:
        raise bad_params(f"too many arguments, want at most {most}")
    return found


def _error(request_id: Any, fault: RpcFault) -> dict[str, Any]:
    error: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return {"jsonrpc": "2.0", "id": request_id, "error": error}
