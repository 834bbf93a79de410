"""The back end elsewhere: a channel to a server, which runs the interceptors that `Local` walks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from florin_gateway.rpc import (
    CLIENT_ADDRESS_KEY,
    GATEWAY_TOKEN_KEY,
    CallError,
    Metadata,
    Stream,
    Unary,
    UnreachableError,
    full_name,
    joined,
)

_HEALTH = "/grpc.health.v1.Health/Check"
# a HealthCheckResponse that says SERVING
_SERVING = b"\x08\x01"
_CONNECTED = {
    grpc.ChannelConnectivity.READY: True,
    grpc.ChannelConnectivity.TRANSIENT_FAILURE: False,
}
# what says that nobody was there to answer
_SILENCE = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})


class Remote:
    """One channel to a service elsewhere.

    A lost connection is dialled again with a growing pause; making channels anew would leak them.
    With a `token` the server is told the address of each HTTP client, and believes it.
    """

    def __init__(
        self,
        target: str,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        token: str = "",
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        given = [
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 5000),
            # a peer that vanished without a word is noticed while it is asked something
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            # what is plain text here because it stays on this machine must not leave it
            ("grpc.enable_http_proxy", 0),
            *options,
        ]
        self._token = token
        self._channel = (
            grpc.aio.insecure_channel(target, options=given)
            if credentials is None
            else grpc.aio.secure_channel(target, credentials, options=given)
        )

    def unary(self, method: MethodDescriptor) -> Unary:
        """A call over the channel."""
        stub: Any = self._channel.unary_unary(full_name(method), *_codecs(method))

        async def call(
            request: Message, metadata: Metadata, timeout_s: float, peer: str
        ) -> tuple[Message, Metadata]:
            under_way = stub(request, metadata=self._with(metadata, peer), timeout=timeout_s)
            try:
                answer = await under_way
                return answer, await _said(under_way)
            except grpc.aio.AioRpcError as error:
                raise self._failure(error) from error
            finally:
                # a call that is merely dropped would neither be collected nor cancelled
                under_way.cancel()

        return call

    def stream(self, method: MethodDescriptor) -> Stream:
        """A streaming call over the channel."""
        stub: Any = self._channel.unary_stream(full_name(method), *_codecs(method))

        def call(
            request: Message, metadata: Metadata, timeout_s: float, peer: str
        ) -> RemoteMessages:
            told = self._with(metadata, peer)
            return RemoteMessages(
                lambda: stub(request, metadata=told, timeout=timeout_s), self._failure
            )

        return call

    def _with(self, metadata: Metadata, peer: str) -> Metadata:
        if not self._token:
            return metadata
        return (*metadata, (CLIENT_ADDRESS_KEY, peer), (GATEWAY_TOKEN_KEY, self._token))

    def _failure(self, error: grpc.aio.AioRpcError) -> CallError:
        silent = error.code() is grpc.StatusCode.UNAVAILABLE and not self._is_connected()
        kind = UnreachableError if silent else CallError
        ahead, after = error.initial_metadata() or (), error.trailing_metadata() or ()
        return kind(error.code(), error.details() or "", joined(tuple(ahead), tuple(after)))

    def _is_connected(self) -> bool:
        return self._channel.get_state() is grpc.ChannelConnectivity.READY

    async def ready(self, timeout_s: float = 1.0) -> bool:
        """True if the server answers within the time given, and does not say that it is leaving."""
        ask: Any = self._channel.unary_unary(_HEALTH)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await ask(b"", timeout=timeout_s, wait_for_ready=True)
        except TimeoutError:
            return False
        except grpc.aio.AioRpcError as error:
            return error.code() not in _SILENCE
        return bool(answer == _SERVING)

    async def connected(self) -> AsyncIterator[bool]:
        """Tells whether there is a connection, and again whenever that changes."""
        known: bool | None = None
        state = self._channel.get_state(try_to_connect=True)
        while state is not grpc.ChannelConnectivity.SHUTDOWN:
            now = _CONNECTED.get(state, known)
            if now is not None and now is not known:
                known = now
                yield now
            await self._channel.wait_for_state_change(state)
            state = self._channel.get_state(try_to_connect=True)

    async def close(self) -> None:
        """Close the channel and cancel what runs over it."""
        await self._channel.close()


class RemoteMessages:
    """A stream over the channel, opened with its first message."""

    def __init__(
        self, dial: Callable[[], Any], failure: Callable[[grpc.aio.AioRpcError], CallError]
    ) -> None:
        self._dial = dial
        self._failure = failure
        self._call: Any = None
        self._messages: Any = None

    def __aiter__(self) -> RemoteMessages:
        return self

    async def __anext__(self) -> Message:
        if self._call is None:
            self._call = self._dial()
            self._messages = self._call.__aiter__()
        try:
            return cast("Message", await self._messages.__anext__())
        except grpc.aio.AioRpcError as error:
            raise self._failure(error) from error

    async def metadata(self) -> Metadata:
        """What the server sent ahead, for which it waits, and at the end."""
        return await _said(self._call) if self._call is not None else ()

    async def close(self) -> None:
        """Cancel the call."""
        if self._call is not None:
            self._call.cancel()


async def _said(call: Any) -> Metadata:
    """The metadata of a call; the trailing part if it has ended."""
    ahead = tuple(await call.initial_metadata())
    # a status that was read before the initial metadata has gRPC drop those
    return joined(ahead, tuple(await call.trailing_metadata())) if call.done() else ahead


def _codecs(method: MethodDescriptor) -> tuple[Any, Any]:
    request, answer = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    return request.SerializeToString, answer.FromString
