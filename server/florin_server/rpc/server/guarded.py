"""What a gRPC server answers: methods by their path, with the gate's checks around each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc

from florin_server.rpc.server.interceptors import Gate


class Guarded(grpc.GenericRpcHandler):
    """All methods of a server by their path, each with the gate's checks around it.

    Interceptors would be asked anew for every call, which is a tenth of what a short one costs. So
    is another tenth that gRPC's event loop waits for each method by itself that it is told of
    beforehand.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._handlers: dict[str, Any] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """The handler of a call; None if nobody answers it."""
        return self._handlers.get(handler_call_details.method)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Takes the methods of a service, as the code that is generated for it tells them."""
        for name, handler in handlers.items():
            path = f"/{service}/{name}"
            guarded = self._gate.around(path, handler)
            if guarded is not None:
                self._handlers[path] = guarded

    def add_generic_rpc_handlers(self, _handlers: object) -> None:
        """Does nothing: they tell of the same methods."""
