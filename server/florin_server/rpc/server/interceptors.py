"""What every call passes before its servicer sees it, in the order that the wire contract fixes.

Header form, credential, version, rate limit, idempotency key, body, then the servicer. The REST
gateway calls through the same interceptor, so that both protocols refuse the same calls in the same
way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeAlias

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from florin_server import logs
from florin_server.domain.addresses import network_of
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.ids import RequestIds
from florin_server.flows.app import App, Caller
from florin_server.flows.limits.held_answers import Release
from florin_server.flows.limits.limit import Quota
from florin_server.flows.payments.load import payment_id_of
from florin_server.rpc.server import metadata, observed
from florin_server.rpc.server.auth import Authenticator
from florin_server.rpc.server.call import CALL, Call
from florin_server.rpc.server.errors import GATEWAY_FAULT, GatewayFault, TooLate, abort, to_status
from florin_server.rpc.server.idempotency import Guards, key_of
from florin_server.rpc.server.methods import Method, methods_of
from florin_server.rpc.server.open_services import OpenServices, is_open
from florin_server.rpc.server.open_streams import OpenStream, OpenStreams
from florin_server.rpc.server.unreadable import Unreadable, lenient

_log = logging.getLogger(__name__)

# generic in the stubs only
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

_UNKNOWN = Caller(live=False)
_UNKNOWN_WCP = Caller(live=False, wcp_profile=True)
_UNAUTHENTICATED = 401

# the address (in gRPC's form) of whoever makes a call, by its metadata and the transport's peer
PeerOf: TypeAlias = Callable[[Any, str], str]


class Gate(grpc.aio.ServerInterceptor):
    """Admits or refuses every call to the given services.

    Health and reflection need no credential; whatever else is registered is not answered.
    """

    def __init__(
        self,
        app: App,
        auth: Authenticator,
        services: Iterable[ServiceDescriptor],
        guards: Guards,
        *,
        peer_of: PeerOf | None = None,
        observe: observed.Observe | None = None,
    ) -> None:
        self._app = app
        self._observe = observe
        self._peer_of = peer_of or _transport_peer
        self._open = OpenServices(app.limits, self._peer_of)
        self._auth = auth
        self._guards = guards
        self._request_ids = RequestIds(app.randbytes)
        self.services = tuple(services)
        self._methods = methods_of(self.services)
        self._guarded: dict[str, tuple[_Handler, _Handler]] = {}
        self._streams = OpenStreams(app.accounts)
        self._mutations: set[asyncio.Future[Any]] = set()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler | None:
        """Puts the checks around a handler, once per method."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        name = handler_call_details.method
        known = self._guarded.get(name)
        if known is None or known[0] is not handler:
            guarded = self.around(name, handler)
            if guarded is None:
                return None
            known = self._guarded[name] = (handler, guarded)
        return known[1]

    def around(self, path: str, handler: _Handler) -> _Handler | None:
        """A handler with the checks around it; None for what is not to be answered."""
        method = self._methods.get(path)
        if method is not None:
            return self._guard(method, handler)
        guarded: _Handler | None = self._open.around(handler) if is_open(path) else None
        return guarded

    def _guard(self, method: Method, handler: Any) -> _Handler:
        observe = self._observe
        if handler.response_streaming:
            stream = self._stream(method, handler.unary_stream)
            return grpc.unary_stream_rpc_method_handler(
                observed.stream(method, stream, observe) if observe else stream,
                request_deserializer=lenient(handler.request_deserializer),
                response_serializer=handler.response_serializer,
            )
        unary = self._unary(method, handler.unary_unary)
        return grpc.unary_unary_rpc_method_handler(
            observed.unary(method, unary, observe) if observe else unary,
            request_deserializer=lenient(handler.request_deserializer),
            response_serializer=handler.response_serializer,
        )

    def _unary(self, method: Method, inner: Callable[[Any, Any], Awaitable[Any]]) -> Any:
        async def answer(request: Message, context: _Context) -> Any:
            entries = context.invocation_metadata()
            call = self._call(entries)
            try:
                await self._admit(method, entries, request, call, context)
                CALL.set(call)
                if method.mutates or method.guarded:
                    response = await self._run(method, inner, request, call, context)
                else:
                    response = await inner(request, context)
            except Exception as error:  # noqa: BLE001  (the boundary: every fault is told)
                await abort(context, to_status(error, method, call), call.trailing())
            else:
                context.set_trailing_metadata(call.trailing())
                return response

        return answer

    def _stream(self, method: Method, inner: Callable[[Any, Any], AsyncIterator[Any]]) -> Any:
        async def answer(request: Message, context: _Context) -> AsyncIterator[Any]:
            entries = context.invocation_metadata()
            call = self._call(entries)
            call.say = lambda: context.send_initial_metadata(call.trailing())
            try:
                await self._admit(method, entries, request, call, context)
                self._hold(request, call, context)
                CALL.set(call)
                async for response in self._read(method, entries, context, inner(request, context)):
                    await call.take_up()
                    yield response
                await call.take_up()
            except Exception as error:  # noqa: BLE001  (the boundary: every fault is told)
                await abort(context, to_status(error, method, call), call.trailing())
            else:
                # once more: callers lose what came ahead when the end comes right behind it
                context.set_trailing_metadata(call.trailing())

        return answer

    async def _read(
        self, method: Method, entries: Any, context: _Context, messages: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Yield the messages of a stream until its caller would not be admitted any more."""
        sent = metadata.read(entries)
        network = network_of(self._peer_of(entries, context.peer()))
        known = self._app.accounts.generation

        async def prove() -> None:
            await self._auth.caller(method.rule, sent, network)

        proves = {key: text for key, text in sent.items() if key not in metadata.PROVE_NOTHING}
        stream = OpenStream((method.name, *sorted(proves.items())), prove)
        self._streams.add(stream)
        try:
            async with aclosing(stream.read(messages)) as reading:
                async for message in reading:
                    if known != self._app.accounts.generation:
                        # a key that is revoked, or may do less, is told nothing more
                        known = self._app.accounts.generation
                        await prove()
                    yield message
        finally:
            self._streams.discard(stream)

    def _hold(self, request: Any, call: Call, context: Any) -> None:
        """Counts a held answer until its call is over, however that ends."""
        # the operator's streams are of payouts
        payment_id = payment_id_of(self._app, getattr(request, "payment_id", ""))
        release = self._held(call.caller, payment_id)
        # a stream that is cancelled between two messages ends its generator some time later
        context.add_done_callback(lambda _: release())

    def _held(self, caller: Caller, payment_id: str | None) -> Release:
        held, credential = self._app.limits.held, caller.credential
        if caller.app is not None:
            return held.by_app(caller.app.app_id, credential, caller.network, payment_id)
        if caller.merchant is not None:
            return held.by_merchant(credential, caller.merchant.id, payment_id)
        return held.by_key(credential, payment_id)

    async def _run(
        self,
        method: Method,
        inner: Callable[[Any, Any], Awaitable[Any]],
        request: Message,
        call: Call,
        context: _Context,
    ) -> Any:
        """Runs what must not be cut off, or waits for its turn under a key, or both."""

        async def start() -> Any:
            if method.mutates and context.time_remaining() == 0:
                raise TooLate
            return await inner(request, context)

        key = call.caller.idempotency
        if method.guarded and key is not None:
            # who leaves while it waits has not begun
            await self._guards.take(key, context.time_remaining())
            work = self._guards.run(key, start, call.caller)
        else:
            work = start()
        return await (self._to_its_end(work) if method.mutates else work)

    async def _to_its_end(self, work: Awaitable[Any]) -> Any:
        """Runs a mutation to its end even if its caller leaves."""
        task = asyncio.ensure_future(work)
        self._mutations.add(task)
        task.add_done_callback(self._mutations.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_unheard)
            raise

    async def drain(self) -> None:
        """Returns when every mutation under way has ended."""
        await self._streams.close()
        if self._mutations:
            await asyncio.wait(set(self._mutations))

    def _call(self, entries: Any) -> Call:
        request_id = metadata.request_id(entries) or self._request_ids.make()
        logs.REQUEST.set(request_id)
        return Call(_UNKNOWN, request_id)

    async def _admit(
        self, method: Method, entries: Any, request: Message, call: Call, context: _Context
    ) -> None:
        sent = metadata.read(entries)
        if metadata.wcp_profile(sent):
            call.caller = _UNKNOWN_WCP
        peer = self._peer_of(entries, context.peer())
        call.caller = caller = await self._caller(method, sent, peer)
        self._count(call)
        if isinstance(request, Unreadable):
            raise request.refusal
        key = None
        if method.rule.idempotency:
            key = key_of(method, caller, sent.get("idempotency-key"), request)
        if method.mutates or key is not None:
            call.caller = replace(caller, idempotency=key, request_id=call.request_id)
        fault = next((v for k, v in entries if k == GATEWAY_FAULT), None)
        if fault is not None:
            raise GatewayFault(fault)
        method.validate(request)

    async def _caller(self, method: Method, sent: Any, peer: str) -> Caller:
        try:
            return await self._auth.caller(method.rule, sent, network_of(peer))
        except FlorinError as refused:
            if refused.http == _UNAUTHENTICATED:
                # whoever guesses is told no more than that it is too many
                self._app.limits.failed(peer)
            raise

    def _count(self, call: Call) -> None:
        caller, limits = call.caller, self._app.limits
        quota: Quota | None = None
        if caller.app is not None:
            quota = limits.client(caller.app.app_id, caller.credential, caller.network)
        elif caller.credential:
            quota = limits.key(caller.credential)
        call.quota = quota
        if quota is not None and not quota.admitted:
            raise FlorinError(Code.RATE_LIMITED, retry_after_s=quota.wait_s)


def _transport_peer(_entries: Any, peer: str) -> str:
    return peer


def _unheard(task: asyncio.Future[Any]) -> None:
    """A call ended that nobody waits for any more: its refusal is nothing to complain of."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, FlorinError | TooLate):
        _log.error("a call failed after its caller had left", exc_info=error)
