"""How pages call RPCs: by name, through the interceptors that every caller passes.

Nothing else tells the console anything: access rules, limits and idempotency keys are the API's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from florin_gateway.errors import refusal_of
from florin_gateway.rpc import Backend, CallError, Messages, Metadata, short_name
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

_DEADLINE_S = 30.0
# an open page asks again then; a key that was revoked hears no longer than this
_STREAM_S = 600.0


class Calls:
    """The RPCs of some services in a back end, for callers who are known by metadata."""

    def __init__(self, backend: Backend, services: Iterable[ServiceDescriptor]) -> None:
        self._backend = backend
        found = [method for service in services for method in service.methods]
        self._methods = {short_name(method): method for method in found}

    async def ask(self, name: str, request: Message, metadata: Metadata, peer: str) -> Any:
        """The answer of `Service.Method`; RefusedError if it is refused."""
        call = self._backend.unary(self._methods[name])
        try:
            answer, _ = await call(request, metadata, _DEADLINE_S, peer)
        except CallError as failure:
            raise refusal_of(failure) from failure
        return answer

    def follow(self, name: str, request: Message, metadata: Metadata, peer: str) -> Messages:
        """The messages of a stream, to be closed; CallError from the first one if refused."""
        return self._backend.stream(self._methods[name])(request, metadata, _STREAM_S, peer)
