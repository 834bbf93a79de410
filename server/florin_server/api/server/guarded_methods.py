"""The methods of a gRPC server by path, each with the access checks around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc

from florin_server.api.server.interceptors import AuthInterceptor


class GuardedMethods(grpc.GenericRpcHandler):
    """All methods of a server by path, each with the access checks around it.

    gRPC calls interceptors anew for every call, which costs a tenth of a short call. Its event loop
    also waits separately for each method that is registered in advance, which costs another tenth.
    """

    def __init__(self, interceptor: AuthInterceptor) -> None:
        self._interceptor = interceptor
        self._handlers: dict[str, Any] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a call; None without a handler."""
        return self._handlers.get(handler_call_details.method)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Register the methods of a service, as its generated code lists them."""
        for name, handler in handlers.items():
            path = f"/{service}/{name}"
            guarded = self._interceptor.wrap_handler(path, handler)
            if guarded is not None:
                self._handlers[path] = guarded

    def add_generic_rpc_handlers(self, _handlers: object) -> None:
        """Do nothing: generated code registers the same handlers again, by name."""
