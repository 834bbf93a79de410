"""Measure the cost of counting and tracing a request, with a handler that does nothing."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from types import SimpleNamespace
from typing import Any

from florin.v1 import gateway_pb2, payment_pb2
from florin_server.api.server import call_observer
from florin_server.api.server.methods import index_methods
from florin_server.app.servers.observing import (
    RequestObservers,
    build_grpc_observer,
    build_rest_observer,
)
from florin_server.app.telemetry import OtelTracer
from florin_server.base.clock import SystemClock
from florin_server.base.meters import Meters
from florin_server.domain.payments.links import CheckoutLinks
from florin_server.settings import TracingSettings
from grpc_rest_gateway.app import RestGateway
from grpc_rest_gateway.backends import LocalBackend
from grpc_rest_gateway.plain import PlainResponse
from grpc_rest_gateway.servicercontext import LocalContext
from opentelemetry.sdk.trace import SpanProcessor

from tests.bench.report import Figure
from tests.bench.size import sized

ROUNDS, CALLS = sized((9, 5_000), (1, 20))
SCOPE = {"type": "http", "method": "GET", "raw_path": b"/x", "path": "/x", "query_string": b""}
PATH = "/florin.v1.GatewayService/GetPaymentStatus"


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    rare = OtelTracer(TracingSettings(ratio=0.01), SpanProcessor())
    seen = {
        "counted": RequestObservers(Meters()),
        "counted and traced, 1 of 100": RequestObservers(Meters(), rare),
    }
    figures = []
    for protocol, handler in (("grpc", _grpc), ("rest", _rest)):
        plain = asyncio.run(_us(handler(RequestObservers())))
        costs = {
            name: asyncio.run(_us(handler(observers))) - plain for name, observers in seen.items()
        }
        output = "; ".join(f"{name} {cost:.1f} µs" for name, cost in costs.items())
        note = f"beyond the same call unseen ({plain:.1f} µs): {output}"
        figures.append(Figure(f"observed_{protocol}", costs["counted"], "µs", note, at_most=20))
    return figures


def _grpc(seen: RequestObservers) -> Any:
    method = index_methods([gateway_pb2.DESCRIPTOR.services_by_name["GatewayService"]])[PATH]
    request = payment_pb2.GetPaymentStatusRequest(payment_id="pay_1")
    answered = payment_pb2.GetPaymentStatusResponse()
    app: Any = SimpleNamespace(clock=SystemClock(), links=CheckoutLinks("", frozenset()))

    async def handle(_request: Any, _context: Any) -> Any:
        return answered

    look = build_grpc_observer(app, seen)
    handler = call_observer.observe_unary(method, handle, look) if look else handle

    async def call() -> None:
        await handler(request, LocalContext((), 30.0, "ipv4:192.0.2.1:1"))

    return call


def _rest(seen: RequestObservers) -> Any:
    gateway = RestGateway(LocalBackend([]), (), observer=build_rest_observer(seen))

    async def handle(_request: Any) -> PlainResponse:
        return PlainResponse()

    gateway.add_route("GET", "/x", handle)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        if message.get("status", 200) != 200:
            raise RuntimeError(f"refused with status {message['status']}")

    async def call() -> None:
        await gateway({**SCOPE, "headers": [], "client": ("192.0.2.1", 1)}, receive, send)

    return call


async def _us(call: Any) -> float:
    """Return the processor time of a call, the median of several rounds."""
    spent = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(CALLS):
            # each call is a separate task, like a request
            await asyncio.create_task(call())
        spent.append((time.process_time() - began) / CALLS * 1e6)
    return median(spent)
