"""The back end in this process: servicers behind the interceptors of a gRPC server."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

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
        """What the servicer or an interceptor has said so far."""
        return self._context.answered

    async def close(self) -> None:
        """Throw GeneratorExit into the servicer, so that its cleanup runs now."""
        await self._messages.aclose()


def _link(interceptor: grpc.aio.ServerInterceptor, following: _Chain) -> _Chain:
    intercept: Any = interceptor.intercept_service

    def step(details: CallDetails) -> Awaitable[Any]:
        return cast("Awaitable[Any]", intercept(following, details))

    return step
