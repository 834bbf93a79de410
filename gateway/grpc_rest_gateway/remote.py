"""The remote backend: a channel to a server, which runs the interceptors there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from grpc_rest_gateway.rpc import (
    CLIENT_ADDRESS_KEY,
    GATEWAY_TOKEN_KEY,
    CallError,
    Metadata,
    StreamMethod,
    UnaryMethod,
    UnreachableError,
    format_method_path,
    join_metadata,
)

_HEALTH = "/grpc.health.v1.Health/Check"
# a HealthCheckResponse with SERVING
_SERVING = b"\x08\x01"
_IS_CONNECTED_BY_STATE = {
    grpc.ChannelConnectivity.READY: True,
    grpc.ChannelConnectivity.TRANSIENT_FAILURE: False,
}
# statuses that mean that no server answered
_NO_RESPONSE_CODES = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})


class RemoteBackend:
    """One channel to a remote service.

    A lost connection is dialed again with a growing pause; creating channels anew would leak them.
    With a `token`, the server accepts the address of each HTTP client from this gateway.
    """

    def __init__(
        self,
        target: str,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        token: str = "",
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        channel_options = [
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 5000),
            # detects a peer that vanished silently while a request is open
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            # plain text that is meant to stay on this machine must not leave it
            ("grpc.enable_http_proxy", 0),
            *options,
        ]
        self._token = token
        self._channel = (
            grpc.aio.insecure_channel(target, options=channel_options)
            if credentials is None
            else grpc.aio.secure_channel(target, credentials, options=channel_options)
        )

    def get_unary(self, method: MethodDescriptor) -> UnaryMethod:
        """Return a callable for a unary method over the channel."""
        stub: Any = self._channel.unary_unary(format_method_path(method), *_get_codecs(method))

        async def call(
            request: Message, metadata: Metadata, timeout_s: float, peer: str
        ) -> tuple[Message, Metadata]:
            under_way = stub(
                request, metadata=self._add_credentials(metadata, peer), timeout=timeout_s
            )
            try:
                answer = await under_way
                return answer, await _get_metadata(under_way)
            except grpc.aio.AioRpcError as error:
                raise self._to_call_error(error) from error
            finally:
                # a call without a cancel would neither be collected nor cancelled
                under_way.cancel()

        return call

    def get_stream(self, method: MethodDescriptor) -> StreamMethod:
        """Return a callable for a streaming method over the channel."""
        stub: Any = self._channel.unary_stream(format_method_path(method), *_get_codecs(method))

        def call(
            request: Message, metadata: Metadata, timeout_s: float, peer: str
        ) -> RemoteMessageStream:
            call_metadata = self._add_credentials(metadata, peer)
            return RemoteMessageStream(
                lambda: stub(request, metadata=call_metadata, timeout=timeout_s),
                self._to_call_error,
            )

        return call

    def _add_credentials(self, metadata: Metadata, peer: str) -> Metadata:
        if not self._token:
            return metadata
        return (*metadata, (CLIENT_ADDRESS_KEY, peer), (GATEWAY_TOKEN_KEY, self._token))

    def _to_call_error(self, error: grpc.aio.AioRpcError) -> CallError:
        silent = error.code() is grpc.StatusCode.UNAVAILABLE and not self._is_connected()
        kind = UnreachableError if silent else CallError
        ahead, after = error.initial_metadata() or (), error.trailing_metadata() or ()
        return kind(error.code(), error.details() or "", join_metadata(tuple(ahead), tuple(after)))

    def _is_connected(self) -> bool:
        return self._channel.get_state() is grpc.ChannelConnectivity.READY

    async def is_ready(self, timeout_s: float = 1.0) -> bool:
        """Return True if the server answers in time and does not report a shutdown."""
        ask: Any = self._channel.unary_unary(_HEALTH)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await ask(b"", timeout=timeout_s, wait_for_ready=True)
        except TimeoutError:
            return False
        except grpc.aio.AioRpcError as error:
            return error.code() not in _NO_RESPONSE_CODES
        return bool(answer == _SERVING)

    async def watch_connection(self) -> AsyncIterator[bool]:
        """Yield whether there is a connection, now and after each change."""
        was_connected: bool | None = None
        state = self._channel.get_state(try_to_connect=True)
        while state is not grpc.ChannelConnectivity.SHUTDOWN:
            now = _IS_CONNECTED_BY_STATE.get(state, was_connected)
            if now is not None and now is not was_connected:
                was_connected = now
                yield now
            await self._channel.wait_for_state_change(state)
            state = self._channel.get_state(try_to_connect=True)

    async def close(self) -> None:
        """Close the channel and cancel its running calls."""
        await self._channel.close()


class RemoteMessageStream:
    """A stream over the channel, opened with its first message."""

    def __init__(
        self,
        open_call: Callable[[], Any],
        to_call_error: Callable[[grpc.aio.AioRpcError], CallError],
    ) -> None:
        self._open_call = open_call
        self._to_call_error = to_call_error
        self._call: Any = None
        self._messages: Any = None

    def __aiter__(self) -> RemoteMessageStream:
        return self

    async def __anext__(self) -> Message:
        if self._call is None:
            self._call = self._open_call()
            self._messages = self._call.__aiter__()
        try:
            return cast("Message", await self._messages.__anext__())
        except grpc.aio.AioRpcError as error:
            raise self._to_call_error(error) from error

    async def metadata(self) -> Metadata:
        """Return the metadata that the server sent ahead, for which this waits, and at the end."""
        return await _get_metadata(self._call) if self._call is not None else ()

    async def close(self) -> None:
        """Cancel the call."""
        if self._call is not None:
            self._call.cancel()


async def _get_metadata(call: Any) -> Metadata:
    """Return the metadata of a call; with the trailing part if it has ended."""
    ahead = tuple(await call.initial_metadata())
    # gRPC drops the initial metadata if the status is read first
    return join_metadata(ahead, tuple(await call.trailing_metadata())) if call.done() else ahead


def _get_codecs(method: MethodDescriptor) -> tuple[Any, Any]:
    request, answer = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    return request.SerializeToString, answer.FromString
