"""The backend in this process: servicers behind the interceptors of a gRPC server."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from grpc_rest_gateway.rpc import CallError, Metadata, StreamMethod, UnaryMethod, format_method_path
from grpc_rest_gateway.servicercontext import LocalContext


class LocalCallDetails(NamedTuple):
    """The details of a call that an interceptor receives."""

    method: str
    invocation_metadata: Metadata


_HandlerLookup = Callable[[LocalCallDetails], Awaitable[Any]]


class LocalBackend:
    """Servicers of this process, called through the unmodified interceptors of a grpc.aio server.

    Messages are passed without a copy: a servicer must not change a message after it answered.
    """

    def __init__(self, interceptors: Sequence[grpc.aio.ServerInterceptor] = ()) -> None:
        self._handlers: dict[str, Any] = {}
        chain: _HandlerLookup = self._find_handler
        for interceptor in reversed(interceptors):
            chain = _chain_interceptor(interceptor, chain)
        self._chain = chain
        self._has_no_interceptors = not interceptors

    def register(self, add_to_server: Callable[[Any, Any], None], servicer: object) -> None:
        """Register a servicer through its generated `add_…Servicer_to_server`."""
        add_to_server(servicer, self)

    # the part of grpc.aio.Server that generated code uses
    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Ignore them: generated code registers the same handlers again, by name."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Keep the handlers of one service."""
        for name, handler in handlers.items():
            self._handlers[f"/{service}/{name}"] = handler

    async def _find_handler(self, details: LocalCallDetails) -> Any:
        return self._handlers.get(details.method)

    async def resolve_handler(self, path: str, metadata: Metadata) -> Any:
        """Return the handler that the interceptors leave in place for this call."""
        handler = await self._chain(LocalCallDetails(path, metadata))
        if handler is None:
            raise CallError(grpc.StatusCode.UNIMPLEMENTED, "Method not found")
        return handler

    def get_unary(self, method: MethodDescriptor) -> UnaryMethod:
        """Return a callable for a unary method."""
        path = format_method_path(method)
        registered = self._handlers[path]

        async def call(
            request: Message, metadata: Metadata, timeout_s: float, peer: str
        ) -> tuple[Message, Metadata]:
            context = LocalContext(metadata, timeout_s, peer)
            cancelled = True
            try:
                handler = (
                    registered
                    if self._has_no_interceptors
                    else await self.resolve_handler(path, metadata)
                )
                answer: Any = handler.unary_unary(request, context)
                if hasattr(answer, "__await__"):
                    answer = await answer
                cancelled = False
            except CallError:
                cancelled = False
                raise
            except Exception as error:
                cancelled = False
                raise context.to_call_error(error) from error
            finally:
                context.finish(cancelled=cancelled)
            if context.is_refused:
                raise context.to_call_error()
            return answer, context.response_metadata

        return call

    def get_stream(self, method: MethodDescriptor) -> StreamMethod:
        """Return a callable for a streaming method."""
        path = format_method_path(method)
        if path not in self._handlers:
            raise KeyError(path)

        def call(
            request: Message, metadata: Metadata, timeout_s: float, peer: str
        ) -> LocalMessageStream:
            context = LocalContext(metadata, timeout_s, peer)
            return LocalMessageStream(
                context, self._stream_messages(path, request, context, metadata)
            )

        return call

    async def _stream_messages(
        self, path: str, request: Message, context: LocalContext, metadata: Metadata
    ) -> AsyncGenerator[Message]:
        cancelled = True
        try:
            handler = await self.resolve_handler(path, metadata)
            produced = handler.unary_stream(request, context)
            if inspect.iscoroutine(produced):
                produced = context.collect_writes(produced)
            try:
                async for message in produced:
                    yield message
            finally:
                # its cleanup must run now, not when the garbage collector runs
                if (close := getattr(produced, "aclose", None)) is not None:
                    await close()
            cancelled = False
        except CallError:
            cancelled = False
            raise
        except Exception as error:
            cancelled = False
            raise context.to_call_error(error) from error
        finally:
            context.finish(cancelled=cancelled)
        if context.is_refused:
            raise context.to_call_error()

    async def close(self) -> None:
        """Do nothing: there is no connection to close."""


class LocalMessageStream:
    """A stream of a servicer in this process."""

    def __init__(self, context: LocalContext, messages: AsyncGenerator[Message]) -> None:
        self._context = context
        self._messages = messages

    def __aiter__(self) -> LocalMessageStream:
        return self

    async def __anext__(self) -> Message:
        return await self._messages.__anext__()

    async def metadata(self) -> Metadata:
        """Return the metadata that the servicer or an interceptor has sent so far."""
        return self._context.response_metadata

    async def close(self) -> None:
        """Throw GeneratorExit into the servicer, so that its cleanup runs now."""
        await self._messages.aclose()


def _chain_interceptor(
    interceptor: grpc.aio.ServerInterceptor, next_lookup: _HandlerLookup
) -> _HandlerLookup:
    intercept: Any = interceptor.intercept_service

    def step(details: LocalCallDetails) -> Awaitable[Any]:
        return cast("Awaitable[Any]", intercept(next_lookup, details))

    return step
