"""Who looks at the requests of one process, for its meters and traces."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from florin_gateway.forwarded import Network, address_of
from florin_gateway.observed import Observe, RawHeaders
from florin_gateway.rpc import Metadata

from florin_server.boot.servers.peers import Peers
from florin_server.flows.app import App
from florin_server.flows.payments.load import payment_id_of
from florin_server.meters import Meters
from florin_server.rpc.server import observed
from florin_server.rpc.server.methods import Method
from florin_server.tracing import NO_SPAN, NO_TRACES, Span, Told, Traces

_HEADER = "traceparent"
_RAW_HEADER = _HEADER.encode()
# whoever asks like this has learnt nothing of a payment, and adds nothing to its trace
_STRANGE = frozenset({"NOT_FOUND", "UNAUTHENTICATED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED"})
# it reads, and is a step all the same
_STATUS = "rpc.response.status_code"
_OPTIONS = "GatewayService.GetPaymentOptions"


@dataclass(frozen=True, slots=True)
class Seen:
    """What is looked at with: meters if they are read, traces if they are recorded.

    `believed` are networks whose traces go on here.
    """

    meters: Meters | None = None
    traces: Traces = NO_TRACES
    believed: Sequence[Network] = ()

    @property
    def nothing(self) -> bool:
        """True if nobody looks."""
        return self.meters is None and not self.traces.on

    def believes(self, peer: str) -> bool:
        """True for an address (in gRPC's form) that may say which trace a request is of."""
        at = address_of(peer.partition(":")[2]) if self.believed else None
        return at is not None and any(at in network for network in self.believed)


class _Request:
    """One request over REST."""

    __slots__ = ("_began", "_meters", "_span", "metadata")

    def __init__(self, seen: Seen, span: Span, metadata: Metadata) -> None:
        self._meters = seen.meters
        if self._meters is not None:
            self._meters.begin("rest")
        self._span = span
        self.metadata = metadata
        self._began = time.perf_counter()

    def end(self, route: str, status: int) -> None:
        if self._meters is not None:
            seconds = time.perf_counter() - self._began
            self._meters.request("rest", route, str(status), seconds)
        told: dict[str, Told] = {"http.route": route, "http.response.status_code": status}
        self._span.end(route or "REST", **told)


class _Call:
    """One call over gRPC, or behind the gateway of this process."""

    __slots__ = ("_app", "_began", "_began_us", "_method", "_payment", "_seen", "_span")

    def __init__(self, app: App, seen: Seen, method: Method, payment: str, span: Span) -> None:
        self._app = app
        self._seen = seen
        if seen.meters is not None:
            seen.meters.begin("grpc")
        self._method = method
        self._payment = payment
        self._span = span
        self._began_us = app.clock.now_us() if seen.traces.on else 0
        self._began = time.perf_counter()

    def end(self, code: str, answer: Any) -> None:
        seen, name = self._seen, self._method.short_name
        if seen.meters is not None:
            seen.meters.request("grpc", name, code, time.perf_counter() - self._began)
        if not seen.traces.on:
            return
        told: dict[str, Told] = {"rpc.method": name, _STATUS: code}
        payment_id = payment_id_of(self._app, self._payment or getattr(answer, "payment_id", ""))
        if payment_id is not None:
            told["florin.payment_id"] = payment_id
            if code not in _STRANGE and (self._method.mutates or name == _OPTIONS):
                now_us = self._app.clock.now_us()
                seen.traces.step(payment_id, name, self._began_us, now_us, **{_STATUS: code})
        self._span.end(**told)


def of_rest(seen: Seen, *, tells: bool = False) -> Observe | None:
    """Looks at what a gateway is asked; one that `tells` has its back end go on with the trace."""
    if seen.nothing:
        return None

    def observe(headers: RawHeaders, client: Callable[[], str]) -> _Request:
        if not seen.traces.on:
            return _Request(seen, NO_SPAN, ())
        given = [value for name, value in headers if name == _RAW_HEADER]
        parent = given[0].decode("latin-1") if len(given) == 1 else ""
        believed = bool(parent) and seen.believes(client())
        span = seen.traces.request("REST", parent, believed=believed)
        onward = ((_HEADER, span.traceparent),) if tells and span.traceparent else ()
        return _Request(seen, span, onward)

    return observe


def of_grpc(app: App, seen: Seen, peers: Peers | None = None) -> observed.Observe | None:
    """Looks at what a gRPC server is asked, or the servicers behind a gateway of this process.

    `peers` tells who calls; its gateways are believed.
    """
    if seen.nothing:
        return None

    def observe(method: Method, request: Any, context: Any) -> _Call:
        payment = getattr(request, "payment_id", "")
        if not seen.traces.on:
            return _Call(app, seen, method, payment, NO_SPAN)
        entries = context.invocation_metadata() or ()
        given = [value for name, value in entries if name == _HEADER]
        parent = given[0] if len(given) == 1 and isinstance(given[0], str) else ""
        believed = bool(parent) and peers is not None and _believed(seen, peers, entries, context)
        span = seen.traces.request(method.short_name, parent, believed=believed)
        return _Call(app, seen, method, payment, span)

    return observe


def _believed(seen: Seen, peers: Peers, entries: Any, context: Any) -> bool:
    return peers.is_gateway(entries) or seen.believes(peers(entries, context.peer()))
