"""The interface of backends: call RPCs with messages, in this process or over a channel.

Both kinds of call take the request, the metadata, the seconds until the deadline and the address of
the HTTP client in gRPC's form. They raise `CallError` for every status except OK. A caller that no
longer waits, or reaches the deadline, cancels its task or closes the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

# names that end in -bin contain bytes
Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]

# the client's address that a gateway sends to a server, and the token that authenticates it
CLIENT_ADDRESS_KEY = "client-address"
GATEWAY_TOKEN_KEY = "gateway-token"  # noqa: S105  (a name, no secret)


def join_metadata(initial: Metadata, trailing: Metadata) -> Metadata:
    """Return initial and trailing metadata, without repeated entries of the trailing part."""
    return (
        (*initial, *(entry for entry in trailing if entry not in initial)) if initial else trailing
    )


class CallError(Exception):
    """A call that ended with a status other than OK; `metadata` is initial plus trailing."""

    def __init__(self, code: grpc.StatusCode, message: str, metadata: Metadata = ()) -> None:
        self.code = code
        self.message = message
        self.metadata = metadata
        super().__init__(f"{code.name}: {message}")


class UnreachableError(CallError):
    """A call that reached no server."""


class UnaryMethod(Protocol):
    """One unary RPC; returns the response with the initial and trailing metadata."""

    async def __call__(
        self, request: Message, metadata: Metadata, timeout_s: float, peer: str
    ) -> tuple[Message, Metadata]:
        """Call and wait for the response."""
        ...


class MessageStream(Protocol):
    """A running stream; one task must read it and always close it."""

    def __aiter__(self) -> MessageStream:
        """Return the stream itself."""
        ...

    async def __anext__(self) -> Message:
        """Return the next message."""
        ...

    async def metadata(self) -> Metadata:
        """Return the metadata received so far; sufficiently complete after the first message.

        It includes the trailing metadata after the end. If a stream ends at once, gRPC can drop the
        initial metadata: a server that needs it received sends it again at the end.
        """
        ...

    async def close(self) -> None:
        """End the call, on the server too."""
        ...


class StreamMethod(Protocol):
    """One streaming RPC; nothing happens before its first message is awaited."""

    def __call__(
        self, request: Message, metadata: Metadata, timeout_s: float, peer: str
    ) -> MessageStream:
        """Open the stream."""
        ...


class RpcBackend(Protocol):
    """Access to the RPCs of a service."""

    def get_unary(self, method: MethodDescriptor) -> UnaryMethod:
        """Return a callable for a unary method; raise LookupError for an unknown method."""
        ...

    def get_stream(self, method: MethodDescriptor) -> StreamMethod:
        """Return a callable for a server-streaming method.

        Raise LookupError for an unknown method.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


def format_method_path(method: MethodDescriptor) -> str:
    """Return the method as a gRPC path."""
    service: Any = method.containing_service
    return f"/{service.full_name}/{method.name}"


def format_method_name(method: MethodDescriptor) -> str:
    """Return the method as `Service.Method`, for people."""
    service: Any = method.containing_service
    return f"{service.name}.{method.name}"
