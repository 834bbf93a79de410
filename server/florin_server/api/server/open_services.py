"""Services without a credential (health, reflection), rate-limited by address."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from florin_server.api.server.errors import abort, to_grpc_status
from florin_server.api.server.unreadable_requests import (
    UnreadableRequest,
    make_lenient_deserializer,
)
from florin_server.domain.addresses import get_peer_network
from florin_server.domain.errors import ApiError
from florin_server.limits.service.limits import ServiceLimits

_SERVICE_NAMES = (
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
)
_PREFIXES = tuple(f"/{name}/" for name in _SERVICE_NAMES)


def is_public(path: str) -> bool:
    """Return True for an RPC (as a gRPC path) that needs no credential."""
    return path.startswith(_PREFIXES)


class PublicServices:
    """Wraps handlers in rate limits by address.

    `resolve_peer` returns the address of a caller, by its metadata and the transport's peer.
    """

    def __init__(self, limits: ServiceLimits, resolve_peer: Callable[[Any, str], str]) -> None:
        self._limits = limits
        self._resolve_peer = resolve_peer

    def wrap_handler(self, handler: Any) -> Any:
        """Return the handler, limited to the rate of its caller."""
        serializers = {
            "request_deserializer": make_lenient_deserializer(handler.request_deserializer),
            "response_serializer": handler.response_serializer,
        }
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(
                self._wrap_unary(handler.unary_unary), **serializers
            )
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(
                self._wrap_watch(handler.unary_stream), **serializers
            )
        return grpc.stream_stream_rpc_method_handler(
            self._wrap_bidirectional(handler.stream_stream), **serializers
        )

    def _wrap_unary(self, handler: Any) -> Any:
        async def answer(request: Any, context: Any) -> Any:
            await self._check_rate_limit(context)
            await _abort_unreadable(request, context)
            return await handler(request, context)

        return answer

    def _wrap_watch(self, handler: Any) -> Any:
        async def watch(request: Any, context: Any) -> None:
            await self._reserve_stream_slot(context)
            await _abort_unreadable(request, context)
            await handler(request, context)

        return watch

    def _wrap_bidirectional(self, handler: Any) -> Any:
        async def counted(requests: Any, context: Any) -> AsyncIterator[Any]:
            async for request in requests:
                await self._check_rate_limit(context)
                await _abort_unreadable(request, context)
                yield request

        async def talk(requests: Any, context: Any) -> AsyncIterator[Any]:
            await self._reserve_stream_slot(context)
            async for answer in handler(counted(requests, context), context):
                yield answer

        return talk

    async def _check_rate_limit(self, context: Any) -> None:
        try:
            self._limits.count_open_call(self._get_network(context))
        except ApiError as over:
            await abort(context, to_grpc_status(over), ())

    async def _reserve_stream_slot(self, context: Any) -> None:
        await self._check_rate_limit(context)
        try:
            release = self._limits.streams.hold_for_anonymous(self._get_network(context))
        except ApiError as over:
            await abort(context, to_grpc_status(over), ())
        else:
            context.add_done_callback(lambda _: release())

    def _get_network(self, context: Any) -> str:
        return get_peer_network(self._resolve_peer(context.invocation_metadata(), context.peer()))


async def _abort_unreadable(request: Any, context: Any) -> None:
    """End a call whose bytes cannot be parsed as a message."""
    if isinstance(request, UnreadableRequest):
        await abort(context, to_grpc_status(request.refusal), ())
