"""What every call passes before its servicer sees it, in the order that the wire contract fixes.

Header form, credential, version, idempotency key, body, then the servicer. The REST gateway calls
through the same interceptor, so that both protocols refuse the same calls in the same way.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import grpc
from florin.v1 import access_pb2
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.ids import short_id
from florin_server.flows.app import App, Caller, IdempotencyKey
from florin_server.rpc.auth import Authenticator
from florin_server.rpc.call import CALL, Call
from florin_server.rpc.errors import DOMAIN, GATEWAY_FAULT, abort, status_of
from florin_server.rpc.validate import Validator

_log = logging.getLogger(__name__)

# metadata that is read; everything else is ignored
KNOWN = frozenset(
    (
        "api-key",
        "merchant-id",
        "app-id",
        "client-id",
        "pay-version",
        "wcp-version",
        "sdk-name",
        "sdk-version",
        "sdk-platform",
        "idempotency-key",
        "request-id",
        "authorization",
    )
)
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY_CHARS_MAX = 255


# generic in the stubs only
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


@dataclass(frozen=True, slots=True)
class _Method:
    """What is known of one RPC at start."""

    name: str
    rule: access_pb2.AccessRule
    validate: Validator

    @property
    def mutates(self) -> bool:
        """A caller that leaves does not stop it half-way; the operator's calls have no scope."""
        return self.rule.family == access_pb2.CALLER_FAMILY_OPERATOR or self.rule.scope not in {
            access_pb2.KEY_SCOPE_READ,
            access_pb2.KEY_SCOPE_UNSPECIFIED,
        }


def methods_of(services: Iterable[ServiceDescriptor]) -> dict[str, _Method]:
    """The access rules of all RPCs; ValueError if one has none, so that the server cannot start."""
    return {
        f"/{service.full_name}/{method.name}": _Method(
            method.full_name, _rule(method), Validator(method.input_type)
        )
        for service in services
        for method in service.methods
    }


def _rule(method: MethodDescriptor) -> access_pb2.AccessRule:
    rule: access_pb2.AccessRule = method.GetOptions().Extensions[access_pb2.access]
    if not rule.family:
        raise ValueError(f"{method.full_name} has no access rule")
    return rule


class Gate(grpc.aio.ServerInterceptor):
    """Admits or refuses every call to the given services; others (health, reflection) pass.

    The operator's RPCs exist on the operator's listener only, and there nothing else does.
    """

    def __init__(
        self,
        app: App,
        auth: Authenticator,
        services: Iterable[ServiceDescriptor],
        *,
        operator: bool = False,
    ) -> None:
        self._app = app
        self._auth = auth
        self.services = tuple(services)
        self._methods = {
            name: method
            for name, method in methods_of(self.services).items()
            if (method.rule.family == access_pb2.CALLER_FAMILY_OPERATOR) is operator
        }
        self._prefixes = tuple(f"/{service.full_name}/" for service in self.services)
        self._guarded: dict[str, tuple[_Handler, _Handler]] = {}
        self._mutations: set[asyncio.Future[Any]] = set()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler | None:
        """Puts the checks around a handler, once per method."""
        handler = await continuation(handler_call_details)
        name = handler_call_details.method
        method = self._methods.get(name)
        if method is None and name.startswith(self._prefixes):
            return None  # another listener's
        if method is None or handler is None:
            return handler
        known = self._guarded.get(name)
        if known is None or known[0] is not handler:
            known = self._guarded[name] = (handler, self._guard(method, handler))
        return known[1]

    def _guard(self, method: _Method, handler: Any) -> _Handler:
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                self._stream(method, handler.unary_stream),
                request_deserializer=handler.request_deserializer,
                response_serializer=handler.response_serializer,
            )
        return grpc.unary_unary_rpc_method_handler(
            self._unary(method, handler.unary_unary),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _unary(self, method: _Method, inner: Callable[[Any, Any], Awaitable[Any]]) -> Any:
        async def answer(request: Message, context: _Context) -> Any:
            entries = context.invocation_metadata()
            call = Call(Caller(live=False), self._request_id(entries))
            try:
                await self._admit(method, entries, request, call)
                CALL.set(call)
                if method.mutates:
                    response = await self._to_its_end(inner(request, context))
                else:
                    response = await inner(request, context)
            except Exception as error:  # noqa: BLE001  (the boundary: every fault is told)
                await abort(context, _told(error, method, call), call.trailing())
            else:
                context.set_trailing_metadata(call.trailing())
                return response

        return answer

    def _stream(self, method: _Method, inner: Callable[[Any, Any], AsyncIterator[Any]]) -> Any:
        async def answer(request: Message, context: _Context) -> AsyncIterator[Any]:
            entries = context.invocation_metadata()
            call = Call(Caller(live=False), self._request_id(entries))
            try:
                await self._admit(method, entries, request, call)
                CALL.set(call)
                told = False
                async for response in inner(request, context):
                    if not told:
                        # whoever passes a stream on has to say it before the stream ends
                        await context.send_initial_metadata(call.trailing())
                        told = True
                    yield response
                if not told:
                    context.set_trailing_metadata(call.trailing())
            except Exception as error:  # noqa: BLE001  (the boundary: every fault is told)
                await abort(context, _told(error, method, call), call.trailing())

        return answer

    async def _to_its_end(self, work: Awaitable[Any]) -> Any:
        """Runs a mutation to its end even if its caller leaves."""
        task = asyncio.ensure_future(work)
        self._mutations.add(task)
        task.add_done_callback(self._mutations.discard)
        return await asyncio.shield(task)

    async def drain(self) -> None:
        """Returns when every mutation under way has ended."""
        if self._mutations:
            await asyncio.wait(set(self._mutations))

    def _request_id(self, entries: Any) -> str:
        for key, value in entries:
            if key == "request-id" and isinstance(value, str) and _REQUEST_ID.fullmatch(value):
                return str(value)
        return short_id("req_", self._app.randbytes)

    async def _admit(self, method: _Method, entries: Any, request: Message, call: Call) -> None:
        sent = _read(entries)
        caller = await self._auth.caller(method.rule, sent)
        call.caller = caller
        if method.rule.idempotency and (key := sent.get("idempotency-key")):
            call.caller = replace(caller, idempotency=_idempotency(method, caller, key, request))
        fault = next((v for k, v in entries if k == GATEWAY_FAULT), None)
        if fault is not None:
            raise _GatewayFault(fault)
        method.validate(request)


class _GatewayFault(Exception):  # noqa: N818  (carries a status, is none itself)
    """The gateway could not read the request; the payload is the status to answer."""


def _read(entries: Any) -> Mapping[str, str]:
    """The known metadata; refuses what could be read in two ways. Empty values count as absent."""
    sent: dict[str, str] = {}
    for key, value in entries:
        if key not in KNOWN:
            continue
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        if not _PRINTABLE.fullmatch(text):
            raise FlorinError(Code.HEADER_NOT_ASCII)
        if key in sent:
            raise FlorinError(Code.INVALID_PARAMS, f"{key} was sent twice")
        # versions keep their empty value: an empty selector is malformed, not absent
        if text or key in {"pay-version", "wcp-version"}:
            sent[key] = text
    return sent


def _idempotency(method: _Method, caller: Caller, key: str, request: Message) -> IdempotencyKey:
    if len(key) > _KEY_CHARS_MAX:
        raise FlorinError(Code.INVALID_PARAMS, "Idempotency-Key is longer than 255 characters")
    merchant = caller.merchant.id if caller.merchant else ""
    mode = "live" if caller.live else "test"
    body = request.SerializeToString(deterministic=True)
    fingerprint = hashlib.sha256(method.name.encode() + b"\0" + body).digest()
    return IdempotencyKey(f"{caller.partner_id}/{merchant}/{mode}", key, fingerprint)


def _told(error: Exception, method: _Method, call: Call) -> status_pb2.Status:
    """The status that tells an error; what is not ours to tell goes to the log only."""
    if isinstance(error, FlorinError):
        return status_of(error)
    if isinstance(error, _GatewayFault):
        return _fault_status(error.args[0])
    _log.exception("%s failed, request %s", method.name, call.request_id, exc_info=error)
    return status_of(FlorinError(Code.INTERNAL_ERROR))


def _fault_status(payload: Any) -> status_pb2.Status:
    """The gateway's own status, if it is one that a gateway may tell."""
    status = status_pb2.Status()
    try:
        status.ParseFromString(payload if isinstance(payload, bytes) else payload.encode())
    except DecodeError:
        return status_of(FlorinError(Code.INVALID_PARAMS))
    for detail in status.details:
        info = error_details_pb2.ErrorInfo()
        if (
            detail.Is(info.DESCRIPTOR)
            and detail.Unpack(info)
            and info.domain == DOMAIN
            and info.metadata.get("code") in {Code.INVALID_PARAMS, Code.PARAMS_VALIDATION}
        ):
            return status
    return status_of(FlorinError(Code.INVALID_PARAMS))
