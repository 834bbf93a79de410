"""What a back end is: a way to call RPCs with messages, whether in this process or over a channel.

Both kinds of call take the request, the metadata, the seconds until the deadline and the address
of the HTTP client in gRPC's form, and raise `CallError` for every status but OK. A caller that
waits no longer cancels its task, or closes the stream; so it does at the deadline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

# names that end in -bin hold bytes
Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]

# what a gateway tells a server about its client, and by what it is believed
CLIENT_ADDRESS_KEY = "client-address"
GATEWAY_TOKEN_KEY = "gateway-token"  # noqa: S105  (a name, no secret)


def joined(ahead: Metadata, after: Metadata) -> Metadata:
    """Initial and trailing metadata, without what the end only repeats."""
    return (*ahead, *(entry for entry in after if entry not in ahead)) if ahead else after


class CallError(Exception):
    """A call that ended with another status than OK; `metadata` is initial plus trailing."""

    def __init__(self, code: grpc.StatusCode, message: str, metadata: Metadata = ()) -> None:
        self.code = code
        self.message = message
        self.metadata = metadata
        super().__init__(f"{code.name}: {message}")


class UnreachableError(CallError):
    """A call that found no server."""


class Unary(Protocol):
    """One RPC with one answer; returns it with the initial and trailing metadata."""

    async def __call__(
        self, request: Message, metadata: Metadata, timeout_s: float, peer: str
    ) -> tuple[Message, Metadata]:
        """Call and wait for the answer."""
        ...


class Messages(Protocol):
    """A stream under way, to be driven by one task and always closed."""

    def __aiter__(self) -> Messages:
        """Itself."""
        ...

    async def __anext__(self) -> Message:
        """The next message."""
        ...

    async def metadata(self) -> Metadata:
        """What the server has said besides messages; complete enough after the first one.

        Its trailing metadata is included from the end on. Of a stream that ends at once gRPC may
        keep nothing else: a server that wants to be heard then says at the end all that it said
        ahead.
        """
        ...

    async def close(self) -> None:
        """End the call, on the server too."""
        ...


class Stream(Protocol):
    """One RPC with many answers; nothing happens before the first one is awaited."""

    def __call__(
        self, request: Message, metadata: Metadata, timeout_s: float, peer: str
    ) -> Messages:
        """Open the stream."""
        ...


class Backend(Protocol):
    """Where the RPCs are."""

    def unary(self, method: MethodDescriptor) -> Unary:
        """A callable for a method with one answer; LookupError if there is no such method."""
        ...

    def stream(self, method: MethodDescriptor) -> Stream:
        """A callable for a server-streaming method; LookupError if there is no such method."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


def full_name(method: MethodDescriptor) -> str:
    """The method as it stands in a gRPC path."""
    service: Any = method.containing_service
    return f"/{service.full_name}/{method.name}"


def short_name(method: MethodDescriptor) -> str:
    """The method as people say it: `Service.Method`."""
    service: Any = method.containing_service
    return f"{service.name}.{method.name}"
