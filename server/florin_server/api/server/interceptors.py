"""The checks before every servicer, in the order that the wire contract fixes.

Header form, credential, version, rate limit, idempotency key, body, then the servicer. The REST
gateway calls through the same interceptor, so both protocols refuse the same calls in the same way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from grpc_rest_gateway.errors import FAULT_KEY
from grpc_rest_gateway.jsonignored import IGNORED_KEY

from florin_server.api.context import ApiContext
from florin_server.api.server import call_observer, metadata
from florin_server.api.server.actors import build_actor
from florin_server.api.server.auth import Authenticator
from florin_server.api.server.call import ActiveCall, current_call
from florin_server.api.server.errors import (
    DeadlineExceeded,
    GatewayFault,
    abort,
    to_call_status,
)
from florin_server.api.server.idempotency import IdempotencyLocks, build_idempotency_key
from florin_server.api.server.methods import MethodSpec, index_methods
from florin_server.api.server.open_services import PublicServices, is_public
from florin_server.api.server.open_streams import OpenStream, OpenStreams
from florin_server.api.server.unreadable_requests import (
    UnreadableRequest,
    make_lenient_deserializer,
)
from florin_server.base import logs
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.addresses import get_peer_network
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.ids import RequestIdGenerator
from florin_server.limits.service.limit import RateQuota
from florin_server.limits.service.stream_limits import Release
from florin_server.money.payments.service.load import find_payment_id
from florin_server.operations.service.audit_log import ACTOR

_log = logging.getLogger(__name__)

# generic in the stubs only
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

_UNKNOWN_CALLER = Caller(live=False)
_UNKNOWN_WCP_CALLER = Caller(live=False, wcp_profile=True)
_UNAUTHENTICATED = 401
# longer than any list that the gateway sends
_IGNORED_CHARS_MAX = 1024

# returns the address of a caller (in gRPC's form), by its metadata and the transport's peer
PeerResolver: TypeAlias = Callable[[Any, str], str]


class AuthInterceptor(grpc.aio.ServerInterceptor):
    """Admits or refuses every call to the given services.

    Health and reflection need no credential; other registered services are not served.
    """

    def __init__(
        self,
        app: ApiContext,
        auth: Authenticator,
        services: Iterable[ServiceDescriptor],
        key_locks: IdempotencyLocks,
        *,
        resolve_peer: PeerResolver | None = None,
        observe: call_observer.CallObserver | None = None,
    ) -> None:
        self._app = app
        self._observe = observe
        self._resolve_peer = resolve_peer or _get_transport_peer
        self._public_services = PublicServices(app.limits, self._resolve_peer)
        self._auth = auth
        self._key_locks = key_locks
        self._request_ids = RequestIdGenerator(app.randbytes)
        self.services = tuple(services)
        self._methods = index_methods(self.services)
        self._wrapped_handlers: dict[str, tuple[_Handler, _Handler]] = {}
        self._streams = OpenStreams(app.notifier)
        self._mutations: set[asyncio.Future[Any]] = set()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler | None:
        """Wrap a handler in the checks, once per method."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        name = handler_call_details.method
        handler_pair = self._wrapped_handlers.get(name)
        if handler_pair is None or handler_pair[0] is not handler:
            guarded = self.wrap_handler(name, handler)
            if guarded is None:
                return None
            handler_pair = self._wrapped_handlers[name] = (handler, guarded)
        return handler_pair[1]

    def wrap_handler(self, path: str, handler: _Handler) -> _Handler | None:
        """Return a handler wrapped in the checks; None for methods that are not served."""
        method = self._methods.get(path)
        if method is not None:
            return self._wrap_method(method, handler)
        guarded: _Handler | None = (
            self._public_services.wrap_handler(handler) if is_public(path) else None
        )
        return guarded

    def _wrap_method(self, method: MethodSpec, handler: Any) -> _Handler:
        observe = self._observe
        if handler.response_streaming:
            stream = self._wrap_stream(method, handler.unary_stream)
            return grpc.unary_stream_rpc_method_handler(
                call_observer.observe_stream(method, stream, observe) if observe else stream,
                request_deserializer=make_lenient_deserializer(handler.request_deserializer),
                response_serializer=handler.response_serializer,
            )
        unary = self._wrap_unary(method, handler.unary_unary)
        return grpc.unary_unary_rpc_method_handler(
            call_observer.observe_unary(method, unary, observe) if observe else unary,
            request_deserializer=make_lenient_deserializer(handler.request_deserializer),
            response_serializer=handler.response_serializer,
        )

    def _wrap_unary(self, method: MethodSpec, handler: Callable[[Any, Any], Awaitable[Any]]) -> Any:
        async def answer(request: Message, context: _Context) -> Any:
            entries = context.invocation_metadata()
            call = self._create_call(entries)
            try:
                await self._admit_call(method, entries, request, call, context)
                current_call.set(call)
                if method.is_mutation or method.is_key_guarded:
                    response = await self._run_method(method, handler, request, call, context)
                else:
                    response = await handler(request, context)
            except Exception as error:  # noqa: BLE001  (the boundary: every error is returned)
                await abort(
                    context, to_call_status(error, method, call), call.build_trailing_metadata()
                )
            else:
                context.set_trailing_metadata(call.build_trailing_metadata())
                return response

        return answer

    def _wrap_stream(
        self, method: MethodSpec, handler: Callable[[Any, Any], AsyncIterator[Any]]
    ) -> Any:
        async def answer(request: Message, context: _Context) -> AsyncIterator[Any]:
            entries = context.invocation_metadata()
            call = self._create_call(entries)
            call.send_initial_metadata = lambda: context.send_initial_metadata(
                call.build_trailing_metadata()
            )
            try:
                await self._admit_call(method, entries, request, call, context)
                self._reserve_stream_slot(request, call, context)
                current_call.set(call)
                async for response in self._read_stream(
                    method, entries, context, handler(request, context)
                ):
                    await call.accept()
                    yield response
                await call.accept()
            except Exception as error:  # noqa: BLE001  (the boundary: every error is returned)
                await abort(
                    context, to_call_status(error, method, call), call.build_trailing_metadata()
                )
            else:
                # sent again: callers lose early metadata if the end of the stream follows directly
                context.set_trailing_metadata(call.build_trailing_metadata())

        return answer

    async def _read_stream(
        self, method: MethodSpec, entries: Any, context: _Context, messages: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Yield the messages of a stream until its caller would no longer be admitted."""
        sent = metadata.parse_metadata(entries)
        network = get_peer_network(self._resolve_peer(entries, context.peer()))
        version = self._streams.version

        async def prove() -> None:
            await self._auth.authenticate(method.rule, sent, network)

        proves = {
            key: text for key, text in sent.items() if key not in metadata.NON_CREDENTIAL_KEYS
        }
        stream = OpenStream((method.name, *sorted(proves.items())), prove)
        self._streams.add(stream)
        try:
            async with aclosing(stream.read_messages(messages)) as reading:
                async for message in reading:
                    if version != self._streams.version:
                        # a revoked or restricted key receives nothing more
                        version = self._streams.version
                        await prove()
                    yield message
        finally:
            self._streams.discard(stream)

    def _reserve_stream_slot(self, request: Any, call: ActiveCall, context: Any) -> None:
        """Count an open stream until its call ends, with or without an error."""
        # the operator's streams concern payouts
        payment_id = find_payment_id(self._app, getattr(request, "payment_id", ""))
        release = self._acquire_stream_slot(call.caller, payment_id)
        # the generator of a stream that is cancelled between two messages ends some time later
        context.add_done_callback(lambda _: release())

    def _acquire_stream_slot(self, caller: Caller, payment_id: str | None) -> Release:
        held, credential = self._app.limits.streams, caller.credential
        if caller.app is not None:
            return held.hold_for_app(caller.app.app_id, credential, caller.network, payment_id)
        if caller.merchant is not None:
            return held.hold_for_merchant(credential, caller.merchant.id, payment_id)
        return held.hold_for_key(credential, payment_id)

    async def _run_method(
        self,
        method: MethodSpec,
        handler: Callable[[Any, Any], Awaitable[Any]],
        request: Message,
        call: ActiveCall,
        context: _Context,
    ) -> Any:
        """Run work that must not be interrupted, or wait for the lock of its key, or both."""

        async def start() -> Any:
            if method.is_mutation and context.time_remaining() == 0:
                raise DeadlineExceeded
            return await handler(request, context)

        key = call.caller.idempotency_key
        if method.is_key_guarded and key is not None:
            # a caller that leaves while it waits has not started the work
            await self._key_locks.acquire(key, context.time_remaining())
            work = self._key_locks.run_locked(key, start, call.caller)
        else:
            work = start()
        return await (self._run_to_completion(work) if method.is_mutation else work)

    async def _run_to_completion(self, work: Awaitable[Any]) -> Any:
        """Run a mutation to its end even if its caller leaves."""
        task = asyncio.ensure_future(work)
        self._mutations.add(task)
        task.add_done_callback(self._mutations.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_log_unobserved_failure)
            raise

    async def drain(self) -> None:
        """Wait until every running mutation has ended."""
        await self._streams.close()
        if self._mutations:
            await asyncio.wait(set(self._mutations))

    def _create_call(self, entries: Any) -> ActiveCall:
        request_id = metadata.find_request_id(entries) or self._request_ids.make()
        logs.REQUEST.set(request_id)
        return ActiveCall(_UNKNOWN_CALLER, request_id)

    async def _admit_call(
        self,
        method: MethodSpec,
        entries: Any,
        request: Message,
        call: ActiveCall,
        context: _Context,
    ) -> None:
        sent = metadata.parse_metadata(entries)
        if metadata.is_wcp_profile(sent):
            call.caller = _UNKNOWN_WCP_CALLER
        peer = self._resolve_peer(entries, context.peer())
        call.caller = caller = await self._authenticate(method, sent, peer)
        if not caller.live:
            # a help for development: live responses stay as they are
            call.ignored_members = sent.get(IGNORED_KEY, "")[:_IGNORED_CHARS_MAX]
        self._check_rate_limit(call)
        if method.is_mutation:
            channel = self._auth.get_channel(method.rule, sent)
            ACTOR.set(partial(build_actor, caller, channel, peer, call.request_id))
        if isinstance(request, UnreadableRequest):
            raise request.refusal
        key = None
        if method.rule.idempotency:
            key = build_idempotency_key(method, caller, sent.get("idempotency-key"), request)
        if method.is_mutation or key is not None:
            call.caller = replace(caller, idempotency_key=key, request_id=call.request_id)
        # a fault that the gateway found is reported once the caller is known
        fault = next((v for k, v in entries if k == FAULT_KEY), None)
        if fault is not None:
            raise GatewayFault(fault)
        method.validate(request)

    async def _authenticate(self, method: MethodSpec, headers: Any, peer: str) -> Caller:
        try:
            return await self._auth.authenticate(method.rule, headers, get_peer_network(peer))
        except ApiError as refused:
            if refused.http_status == _UNAUTHENTICATED:
                # a caller that guesses credentials learns only that it exceeded the limit
                self._app.limits.count_failure(peer)
            raise

    def _check_rate_limit(self, call: ActiveCall) -> None:
        caller, limits = call.caller, self._app.limits
        quota: RateQuota | None = None
        if caller.app is not None:
            quota = limits.count_client_call(caller.app.app_id, caller.credential, caller.network)
        elif caller.credential:
            quota = limits.count_key_call(caller.credential)
            self._app.key_uses.note(caller.credential, self._app.clock.now_us())
        call.quota = quota
        if quota is not None and not quota.is_admitted:
            raise ApiError(ErrorCode.RATE_LIMITED, retry_after_s=quota.wait_s)


def _get_transport_peer(_entries: Any, peer: str) -> str:
    return peer


def _log_unobserved_failure(task: asyncio.Future[Any]) -> None:
    """Log the failure of a call whose caller left; an error response is no failure."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, ApiError | DeadlineExceeded):
        _log.error("call failed after its caller left", exc_info=error)
