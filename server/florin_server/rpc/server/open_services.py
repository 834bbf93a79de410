"""Services that need no credential (health, reflection), within the bounds of an address."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from florin_server.domain.addresses import network_of
from florin_server.domain.errors import FlorinError
from florin_server.flows.limits.limits import Limits
from florin_server.rpc.server.errors import abort, status_of
from florin_server.rpc.server.unreadable import Unreadable, lenient

_NAMES = (
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
)
_PREFIXES = tuple(f"/{name}/" for name in _NAMES)


def is_open(path: str) -> bool:
    """True for an RPC (as a gRPC path) that needs no credential."""
    return path.startswith(_PREFIXES)


class OpenServices:
    """Puts the bounds around handlers.

    `peer_of` tells the address of a caller, by its metadata and the transport's peer.
    """

    def __init__(self, limits: Limits, peer_of: Callable[[Any, str], str]) -> None:
        self._limits = limits
        self._peer_of = peer_of

    def around(self, handler: Any) -> Any:
        """A handler that does the same, as often as its caller may ask for it."""
        given = {
            "request_deserializer": lenient(handler.request_deserializer),
            "response_serializer": handler.response_serializer,
        }
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(self._unary(handler.unary_unary), **given)
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(self._watch(handler.unary_stream), **given)
        return grpc.stream_stream_rpc_method_handler(self._talk(handler.stream_stream), **given)

    def _unary(self, inner: Any) -> Any:
        async def answer(request: Any, context: Any) -> Any:
            await self._count(context)
            await _check(request, context)
            return await inner(request, context)

        return answer

    def _watch(self, inner: Any) -> Any:
        async def watch(request: Any, context: Any) -> None:
            await self._hold(context)
            await _check(request, context)
            await inner(request, context)

        return watch

    def _talk(self, inner: Any) -> Any:
        async def counted(requests: Any, context: Any) -> AsyncIterator[Any]:
            async for request in requests:
                await self._count(context)
                await _check(request, context)
                yield request

        async def talk(requests: Any, context: Any) -> AsyncIterator[Any]:
            await self._hold(context)
            async for answer in inner(counted(requests, context), context):
                yield answer

        return talk

    async def _count(self, context: Any) -> None:
        try:
            self._limits.open_call(self._network(context))
        except FlorinError as over:
            await abort(context, status_of(over), ())

    async def _hold(self, context: Any) -> None:
        await self._count(context)
        try:
            release = self._limits.held.by_nobody(self._network(context))
        except FlorinError as over:
            await abort(context, status_of(over), ())
        else:
            context.add_done_callback(lambda _: release())

    def _network(self, context: Any) -> str:
        return network_of(self._peer_of(context.invocation_metadata(), context.peer()))


async def _check(request: Any, context: Any) -> None:
    """Ends a call whose bytes are no message."""
    if isinstance(request, Unreadable):
        await abort(context, status_of(request.refusal), ())
