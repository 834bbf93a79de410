"""Calls of RPCs by name, through the interceptors that every caller passes.

The console has no other source of data: the API's access rules, limits and idempotency keys apply.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from grpc_rest_gateway.errors import to_refused_error
from grpc_rest_gateway.rpc import CallError, MessageStream, Metadata, RpcBackend, format_method_name

_DEADLINE_S = 30.0
# an open page asks again then, so that a revoked key receives nothing for longer
_STREAM_S = 600.0


class ConsoleRpcClient:
    """Calls the RPCs of some services in a back end, with the metadata of a session."""

    def __init__(self, backend: RpcBackend, services: Iterable[ServiceDescriptor]) -> None:
        self._backend = backend
        method_descriptors = [method for service in services for method in service.methods]
        self._methods = {format_method_name(method): method for method in method_descriptors}

    async def call(self, name: str, request: Message, metadata: Metadata, peer: str) -> Any:
        """Return the answer of `Service.Method`; RefusedError if it is refused."""
        call = self._backend.get_unary(self._methods[name])
        try:
            answer, _ = await call(request, metadata, _DEADLINE_S, peer)
        except CallError as failure:
            raise to_refused_error(failure) from failure
        return answer

    def stream(self, name: str, request: Message, metadata: Metadata, peer: str) -> MessageStream:
        """Return the messages of a stream, to be closed; CallError from the first if refused."""
        return self._backend.get_stream(self._methods[name])(request, metadata, _STREAM_S, peer)
