"""JSON-RPC 2.0 envelopes: one call or a batch in, its answers out."""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import dataclass
from typing import Any, Final

import orjson

from florin_server.devnet.evm import params
from florin_server.devnet.evm.chain import Chain
from florin_server.devnet.evm.control import ControlMethods
from florin_server.devnet.evm.errors import DevChainError, RpcFault
from florin_server.devnet.evm.faults import Effect, Fault, Faults
from florin_server.devnet.evm.methods import EthMethods, Method
from florin_server.devnet.evm.mining import Mining
from florin_server.devnet.evm.views import hexed

BATCH_MAX: Final = 1000  # as geth

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send back, and how long to hold it back on purpose."""

    payload: bytes
    delay_s: float


class RpcServer:
    """Answers calls about one chain. Used by one thread."""

    def __init__(self, chain: Chain, mining: Mining) -> None:
        self._chain = chain
        self._faults = Faults()
        self._delay_s = 0.0
        self._table: dict[str, Method] = {
            **EthMethods(chain, mining).table,
            **ControlMethods(chain, mining, self._faults).table,
        }

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
            answer = self._one(request)
        body = b"" if answer is None else orjson.dumps(answer)
        return Answer(body, self._delay_s)

    def _batch(self, requests: list[Any]) -> Any:
        if not requests:
            return _error(None, RpcFault("empty batch", -32600))
        if len(requests) > BATCH_MAX:
            return _error(None, RpcFault("batch too large", -32600))
        answers = [self._one(request) for request in requests]
        return [answer for answer in answers if answer is not None] or None

    def _one(self, request: Any) -> dict[str, Any] | None:
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
        arguments = params.arguments(given, least, most)
        fault = None if method.startswith("florin_") else self._faults.next(method)
        if fault is None:
            return function(*arguments)
        return self._faulty(fault, entry, arguments)

    def _faulty(self, fault: Fault, method: Method, arguments: list[Any]) -> Any:
        if fault.effect is Effect.ERROR:
            raise RpcFault(fault.message, fault.code)
        if fault.effect is Effect.NULL:
            return None
        if fault.effect is Effect.DROP:
            return hexed(self._chain.decode(params.data(arguments[0])).hash)
        result = method[0](*arguments)
        if fault.effect is Effect.LATE_ERROR:
            raise RpcFault(fault.message, fault.code)
        self._delay_s = max(self._delay_s, fault.delay_s)
        return result


def _error(request_id: Any, fault: RpcFault) -> dict[str, Any]:
    error: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return {"jsonrpc": "2.0", "id": request_id, "error": error}
