"""Observers of the requests of one process, for its meters and traces."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from grpc_rest_gateway.forwarded import Network, find_address
from grpc_rest_gateway.requestobserver import RawHeaders, RequestObserver
from grpc_rest_gateway.rpc import Metadata

from florin_server.api.server import call_observer
from florin_server.api.server.methods import MethodSpec
from florin_server.app.core import App
from florin_server.app.servers.peers import CallerResolver
from florin_server.base.meters import Meters
from florin_server.base.tracing import (
    NULL_SPAN,
    NULL_TRACER,
    AttributeValue,
    Span,
    Tracer,
)
from florin_server.money.payments.service.load import find_payment_id

_HEADER = "traceparent"
_RAW_HEADER = _HEADER.encode()
# such requests learn nothing about a payment, and add nothing to its trace
_STRANGER_STATUSES = frozenset(
    {"NOT_FOUND", "UNAUTHENTICATED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED"}
)
# it reads, and is a step all the same
_STATUS_ATTRIBUTE = "rpc.response.status_code"
_OPTIONS = "GatewayService.GetPaymentOptions"


@dataclass(frozen=True, slots=True)
class RequestObservers:
    """The observers: meters if they are read, traces if they are recorded.

    `trusted_networks` are networks whose traces continue here.
    """

    meters: Meters | None = None
    tracer: Tracer = NULL_TRACER
    trusted_networks: Sequence[Network] = ()

    @property
    def is_empty(self) -> bool:
        """Return True without observers."""
        return self.meters is None and not self.tracer.is_enabled

    def is_trusted(self, peer: str) -> bool:
        """Return True for an address (in gRPC's form) that may say which trace a request is of."""
        at = find_address(peer.partition(":")[2]) if self.trusted_networks else None
        return at is not None and any(at in network for network in self.trusted_networks)


class _RestRequestObservation:
    """One request over REST."""

    __slots__ = ("_meters", "_span", "_started", "metadata")

    def __init__(self, seen: RequestObservers, span: Span, metadata: Metadata) -> None:
        self._meters = seen.meters
        if self._meters is not None:
            self._meters.begin_request("rest")
        self._span = span
        self.metadata = metadata
        self._started = time.perf_counter()

    def end(self, route: str, status: int) -> None:
        if self._meters is not None:
            seconds = time.perf_counter() - self._started
            self._meters.record_request("rest", route, str(status), seconds)
        attributes: dict[str, AttributeValue] = {
            "http.route": route,
            "http.response.status_code": status,
        }
        self._span.end(route or "REST", **attributes)


class _GrpcCallObservation:
    """One call over gRPC, or behind the gateway of this process."""

    __slots__ = ("_app", "_method", "_observers", "_payment_id", "_span", "_started", "_started_us")

    def __init__(
        self, app: App, seen: RequestObservers, method: MethodSpec, payment: str, span: Span
    ) -> None:
        self._app = app
        self._observers = seen
        if seen.meters is not None:
            seen.meters.begin_request("grpc")
        self._method = method
        self._payment_id = payment
        self._span = span
        self._started_us = app.clock.now_us() if seen.tracer.is_enabled else 0
        self._started = time.perf_counter()

    def end(self, code: str, answer: Any) -> None:
        seen, name = self._observers, self._method.short_name
        if seen.meters is not None:
            seen.meters.record_request("grpc", name, code, time.perf_counter() - self._started)
        if not seen.tracer.is_enabled:
            return
        attributes: dict[str, AttributeValue] = {"rpc.method": name, _STATUS_ATTRIBUTE: code}
        payment_id = find_payment_id(
            self._app, self._payment_id or getattr(answer, "payment_id", "")
        )
        if payment_id is not None:
            attributes["florin.payment_id"] = payment_id
            if code not in _STRANGER_STATUSES and (self._method.is_mutation or name == _OPTIONS):
                now_us = self._app.clock.now_us()
                seen.tracer.record_step(
                    payment_id, name, self._started_us, now_us, **{_STATUS_ATTRIBUTE: code}
                )
        self._span.end(**attributes)


def build_rest_observer(
    seen: RequestObservers, *, propagates: bool = False
) -> RequestObserver | None:
    """Observe the requests of a gateway; with `propagates` its back end continues the trace."""
    if seen.is_empty:
        return None

    def observe(headers: RawHeaders, client: Callable[[], str]) -> _RestRequestObservation:
        if not seen.tracer.is_enabled:
            return _RestRequestObservation(seen, NULL_SPAN, ())
        parents = [value for name, value in headers if name == _RAW_HEADER]
        parent = parents[0].decode("latin-1") if len(parents) == 1 else ""
        believed = bool(parent) and seen.is_trusted(client())
        span = seen.tracer.start_request("REST", parent, trusted=believed)
        onward = ((_HEADER, span.traceparent),) if propagates and span.traceparent else ()
        return _RestRequestObservation(seen, span, onward)

    return observe


def build_grpc_observer(
    app: App, seen: RequestObservers, peers: CallerResolver | None = None
) -> call_observer.CallObserver | None:
    """Observe the requests of a gRPC server, or of the servicers behind a gateway of this process.

    `peers` identifies callers; its gateways are trusted.
    """
    if seen.is_empty:
        return None

    def observe(method: MethodSpec, request: Any, context: Any) -> _GrpcCallObservation:
        payment = getattr(request, "payment_id", "")
        if not seen.tracer.is_enabled:
            return _GrpcCallObservation(app, seen, method, payment, NULL_SPAN)
        entries = context.invocation_metadata() or ()
        parents = [value for name, value in entries if name == _HEADER]
        parent = parents[0] if len(parents) == 1 and isinstance(parents[0], str) else ""
        believed = (
            bool(parent) and peers is not None and _is_trusted_call(seen, peers, entries, context)
        )
        span = seen.tracer.start_request(method.short_name, parent, trusted=believed)
        return _GrpcCallObservation(app, seen, method, payment, span)

    return observe


def _is_trusted_call(
    seen: RequestObservers, peers: CallerResolver, entries: Any, context: Any
) -> bool:
    return peers.is_gateway(entries) or seen.is_trusted(peers(entries, context.peer()))
