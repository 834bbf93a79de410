"""The two back ends: servicers in this process, or a channel to a server elsewhere.

Both run the same interceptors: `Local` walks them itself, behind `Remote` the server does.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from florin_gateway.rpc import CallError, Metadata, Stream, Unary, full_name
from florin_gateway.servicercontext import LocalContext


class CallDetails(NamedTuple):
    """What an interceptor is told about a call."""

    method: str
    invocation_metadata: Metadata


_Chain = Callable[[CallDetails], Awaitable[Any]]


class Local:
    """Servicers of this process, called through the unmodified interceptors of a grpc.aio server.

    Messages are handed over as they are: a servicer must not change one after it answered.
    """

    def __init__(self, interceptors: Sequence[grpc.aio.ServerInterceptor] = ()) -> None:
        self._handlers: dict[str, Any] = {}
        chain: _Chain = self._handler
        for interceptor in reversed(interceptors):
            chain = _link(interceptor, chain)
        self._chain = chain
        self._plain = not interceptors

    def register(self, add_to_server: Callable[[Any, Any], None], servicer: object) -> None:
        """Take in a servicer through its generated `add_…Servicer_to_server`."""
        add_to_server(servicer, self)

    # the part of grpc.aio.Server that generated code talks to
    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Ignored: the registered handlers that follow are the same ones, by name."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Keep the handlers of one service."""
        for name, handler in handlers.items():
            self._handlers[f"/{service}/{name}"] = handler

    async def _handler(self, details: CallDetails) -> Any:
        return self._handlers.get(details.method)

    async def resolve(self, path: str, metadata: Metadata) -> Any:
        """The handler that the interceptors leave in place for this call."""
        handler = await self._chain(CallDetails(path, metadata))
        if handler is None:
            raise CallError(grpc.StatusCode.UNIMPLEMENTED, "Method not found")
        return handler

    def unary(self, method: MethodDescriptor) -> Unary:
        """A call of one servicer method."""
        path = full_name(method)
        registered = self._handlers[path]

        async def call(
            request: Message, metadata: Metadata, timeout_s: float, peer: str
        ) -> tuple[Message, Metadata]:
            context = LocalContext(metadata, timeout_s, peer)
            cancelled = True
            try:
                handler = registered if self._plain else await self.resolve(path, metadata)
                answer: Any = handler.unary_unary(request, context)
                if hasattr(answer, "__await__"):
                    answer = await answer
                cancelled = False
            except CallError:
                cancelled = False
                raise
            except Exception as error:
                cancelled = False
                raise context.failure(error) from error
            finally:
                context.finish(cancelled=cancelled)
            if context.refused:
                raise context.failure()
            return answer, context.answered

        return call

    def stream(self, method: MethodDescriptor) -> Stream:
        """A call of one streaming servicer method."""
        path = full_name(method)
        if path not in self._handlers:
            raise KeyError(path)

        def call(
            request: Message, metadata: Metadata, timeout_s: float, peer: str
        ) -> LocalMessages:
            context = LocalContext(metadata, timeout_s, peer)
            return LocalMessages(context, self._messages(path, request, context, metadata))

        return call

    async def _messages(
        self, path: str, request: Message, context: LocalContext, metadata: Metadata
    ) -> AsyncGenerator[Message]:
        cancelled = True
        try:
            handler = await self.resolve(path, metadata)
            produced = handler.unary_stream(request, context)
            if inspect.iscoroutine(produced):
                produced = context.written_by(produced)
            try:
                async for message in produced:
                    yield message
            finally:
                # its cleanup must run now, not when the garbage collector finds it
                if (close := getattr(produced, "aclose", None)) is not None:
                    await close()
            cancelled = False
        except CallError:
            cancelled = False
            raise
        except Exception as error:
            cancelled = False
            raise context.failure(error) from error
        finally:
            context.finish(cancelled=cancelled)
        if context.refused:
            raise context.failure()

    async def close(self) -> None:
        """Nothing to let go of."""


class LocalMessages:
    """A stream of a servicer in this process."""

    def __init__(self, context: LocalContext, messages: AsyncGenerator[Message]) -> None:
        self._context = context
        self._messages = messages

    def __aiter__(self) -> LocalMessages:
        return self

    async def __anext__(self) -> Message:
        return await self._messages.__anext__()

    async def metadata(self) -> Metadata:
        """What the servicer or an interceptor sent ahead so far."""
        return self._context.ahead

    async def close(self) -> None:
        """Throw GeneratorExit into the servicer, so that its cleanup runs now."""
        await self._messages.aclose()


class Remote:
    """One channel to a Florin server elsewhere.

    A lost connection is dialled again with a growing pause; making channels anew would leak them.
    """

    def __init__(
        self,
        target: str,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        given = [
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 5000),
            *options,
        ]
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
            del peer
            under_way = stub(request, metadata=metadata, timeout=timeout_s)
            try:
                answer = await under_way
                ahead = await under_way.initial_metadata()
                return answer, (*ahead, *await under_way.trailing_metadata())
            except grpc.aio.AioRpcError as error:
                raise _failure(error) from error
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
            del peer
            return RemoteMessages(lambda: stub(request, metadata=metadata, timeout=timeout_s))

        return call

    async def ready(self, timeout_s: float = 1.0) -> bool:
        """True if the server can be reached now or within the time given."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._channel.channel_ready()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Close the channel and cancel what runs over it."""
        await self._channel.close()


class RemoteMessages:
    """A stream over the channel, opened with its first message."""

    def __init__(self, dial: Callable[[], Any]) -> None:
        self._dial = dial
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
            raise _failure(error) from error

    async def metadata(self) -> Metadata:
        """What the server sent ahead; waits for it."""
        return tuple(await self._call.initial_metadata()) if self._call is not None else ()

    async def close(self) -> None:
        """Cancel the call."""
        if self._call is not None:
            self._call.cancel()


def _link(interceptor: grpc.aio.ServerInterceptor, following: _Chain) -> _Chain:
    intercept: Any = interceptor.intercept_service

    def step(details: CallDetails) -> Awaitable[Any]:
        return cast("Awaitable[Any]", intercept(following, details))

    return step


def _codecs(method: MethodDescriptor) -> tuple[Any, Any]:
    request, answer = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    return request.SerializeToString, answer.FromString


def _failure(error: grpc.aio.AioRpcError) -> CallError:
    ahead, after = error.initial_metadata() or (), error.trailing_metadata() or ()
    return CallError(error.code(), error.details() or "", (*ahead, *after))
