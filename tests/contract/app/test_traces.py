"""A payment is one trace over REST, gRPC and settlement, and callers cannot force a recording."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from florin.v1 import gateway_pb2_grpc, payment_pb2
from florin_server import app
from florin_server.app import traces as tracing
from florin_server.app.home import SetupError
from florin_server.app.servers import gateway, observing
from florin_server.app.servers.observing import RequestObservers
from florin_server.app.servers.upstream import UpstreamConnection
from florin_server.app.telemetry import OtelTracer
from florin_server.base import logs
from florin_server.base.tracing import NULL_SPAN, NULL_TRACER
from florin_server.settings import TracingSettings
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.service import make_settings
from tests.support.service_harness import ORDER, ServiceHarness, open_service
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

FORGED = f"00-{'ab' * 16}-{'cd' * 8}-01"
LOCAL = ("127.0.0.0/8", "::1/128")


@dataclass
class Recorder:
    traces: OtelTracer
    exporter: InMemorySpanExporter

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [readable_span for readable_span in self.spans if readable_span.name == name]

    def of(self, trace_id: int) -> dict[str, ReadableSpan]:
        return {
            readable_span.name: readable_span
            for readable_span in self.spans
            if readable_span.context.trace_id == trace_id
        }


def recorder(chance: Callable[[], float] = lambda: 0.5, **chosen: object) -> Recorder:
    exporter = InMemorySpanExporter()
    tracing_settings = TracingSettings(
        **{"endpoint": "http://127.0.0.1:4317", "ratio": 1.0, **chosen}
    )
    return Recorder(OtelTracer(tracing_settings, SimpleSpanProcessor(exporter), chance), exporter)


@asynccontextmanager
async def recorded(home: Path, **chosen: object) -> AsyncIterator[tuple[ServiceHarness, Recorder]]:
    stored_recorder = recorder(**chosen)
    tracing_settings = TracingSettings(trusted_callers=chosen.get("trusted_callers", ()))
    async with open_service(home, traces=stored_recorder.traces, tracing=tracing_settings) as desk:
        yield desk, stored_recorder


async def test_payment_is_a_single_trace_over_rest_grpc_and_settlement(tmp_path):
    async with recorded(tmp_path) as (desk, stored_recorder):
        wallet = EvmTestWallet()
        # created over gRPC, offered and confirmed over REST
        payment_id = (await desk.grpc.create(ORDER))["paymentId"]
        (option,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
        await desk.rest.confirm(payment_id, option["id"], wallet.execute_all(option))
        assert (await desk.wait_final(payment_id))["status"] == "succeeded"
        await wait_until(lambda: stored_recorder.named("payment"))
    (readable_span,) = stored_recorder.named("payment")
    assert readable_span.attributes["florin.id"] == payment_id
    assert readable_span.attributes["status"] == "succeeded"
    assert readable_span.parent is None
    steps = stored_recorder.of(readable_span.context.trace_id)
    assert steps.keys() == {
        "payment",
        "MerchantService.CreatePayment",
        "GatewayService.GetPaymentOptions",
        "GatewayService.ConfirmPayment",
        "broadcast",
        "settle",
    }
    for name, step in steps.items():
        if name != "payment":
            assert step.parent.span_id == readable_span.context.span_id
            assert step.start_time >= readable_span.start_time
    assert steps["broadcast"].attributes["chain"].startswith("eip155:")
    # each call is linked with the request that made it, over REST too, and the other way round
    (link,) = steps["GatewayService.ConfirmPayment"].links
    (request,) = [
        span for span in stored_recorder.spans if span.context.span_id == link.context.span_id
    ]
    assert readable_span.context.span_id in {
        each_link.context.span_id for each_link in request.links
    }
    assert request.name == "GatewayService.ConfirmPayment"
    assert request.attributes["http.response.status_code"] == 200
    result = {name for span in stored_recorder.spans for name in span.attributes}
    assert result <= {
        *("florin.id", "florin.payment_id", "status", "chain", "tx"),
        *("http.route", "http.response.status_code", "rpc.method", "rpc.response.status_code"),
    }


async def test_a_strangers_traceparent_is_linked_and_decides_nothing(tmp_path):
    chances = iter([0.9, 0.05, 0.9, 0.05])
    async with recorded(tmp_path, chance=lambda: next(chances), ratio=0.1) as (
        desk,
        stored_recorder,
    ):
        for _ in range(2):
            await desk.ask("GET", "/v1/gateway/payment/pay_x", {"traceparent": FORGED})
        stub = gateway_pb2_grpc.GatewayServiceStub(desk.channel)
        for _ in range(2):
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.GetPayment(
                    payment_pb2.GetPaymentRequest(payment_id="pay_x"),
                    metadata=(("traceparent", FORGED),),
                )
    spans = [span for span in stored_recorder.spans if span.name == "GatewayService.GetPayment"]
    # half of the calls are recorded, by chance: REST with the call behind it, then gRPC
    assert len(spans) == 3
    roots = [span for span in spans if span.parent is None]
    assert len(roots) == 2
    for readable_span in roots:
        assert readable_span.context.trace_id != int("ab" * 16, 16)
        (link,) = readable_span.links
        assert link.context.trace_id == int("ab" * 16, 16)


@pytest.mark.parametrize("flag", ["01", "00"])
async def test_trace_of_a_trusted_caller_continues(tmp_path, flag):
    parent = FORGED[:-2] + flag
    async with recorded(tmp_path, ratio=0.0, trusted_callers=LOCAL) as (desk, stored_recorder):
        await desk.ask("GET", "/v1/gateway/payment/pay_x", {"traceparent": parent})
        await desk.ask("GET", "/v1/gateway/payment/pay_y")
    readable_spans = stored_recorder.of(int("ab" * 16, 16))
    assert len(stored_recorder.spans) == (2 if flag == "01" else 0)
    assert readable_spans.keys() == ({"GatewayService.GetPayment"} if flag == "01" else set())


@pytest.mark.parametrize(
    "parent",
    ["", "x" * 5000, "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "ff" + FORGED[2:], FORGED + "-x"],
)
async def test_a_broken_traceparent_is_no_fault_of_a_request(tmp_path_factory, parent):
    stored_recorder = recorder()
    span = stored_recorder.traces.start_request("x", parent, trusted=True)
    span.end()
    (readable_span,) = stored_recorder.spans
    assert readable_span.parent is None
    assert not readable_span.links


async def test_a_line_of_the_log_names_the_trace_of_its_request():
    stored_recorder = recorder()

    async def request() -> str:
        stored_recorder.traces.start_request("x").end()
        return logs.TRACE.get()

    named = await asyncio.create_task(request())
    (span,) = stored_recorder.spans
    assert named == f"{span.context.trace_id:032x}"
    assert logs.TRACE.get() == ""


async def test_keys_of_the_collector_are_hidden_from_the_log(tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=florin-team,x-key=collector-s3cr3t")
    settings = make_settings(tmp_path, tracing=TracingSettings(endpoint="http://127.0.0.1:9"))
    async with AsyncExitStack() as stack:
        tracing.start_tracer(settings, stack)
    assert logs.redactor("it said collector-s3cr3t") == "it said [hidden]"


def test_recorded_spans_are_limited_by_the_settings():
    stored_recorder = recorder(spans_per_second=5)
    for number in range(1000):
        stored_recorder.traces.record_step(f"pay_{number}", "broadcast", 1, 2)
    assert 5 <= len(stored_recorder.spans) < 200


def test_of_a_payment_all_processes_record_the_same():
    this_recorder, other = recorder(ratio=0.5), recorder(ratio=0.5)
    names = [f"pay_{number}" for number in range(200)]
    for name in names:
        this_recorder.traces.record_step(name, "broadcast", 1, 2)
        other.traces.record_root(name, "payment", 1, 2)
    first = {span.context.trace_id: span.parent.span_id for span in this_recorder.spans}
    assert first == {span.context.trace_id: span.context.span_id for span in other.spans}
    assert 60 < len(first) < 140


async def test_a_gateway_elsewhere_hands_its_trace_on(tmp_path):
    stored_recorder, edge = recorder(ratio=0.0), recorder()
    token = "t" * 40
    async with (
        open_service(tmp_path, traces=stored_recorder.traces, gateway_token=token) as desk,
        AsyncExitStack() as stack,
    ):
        url = await gateway.start_remote_gateway(
            desk.service.grpc.target,
            gateway.bind_socket("127.0.0.1", 0),
            stack,
            connection=UpstreamConnection(token=token),
            observe=observing.build_rest_observer(
                RequestObservers(tracer=edge.traces), propagates=True
            ),
        )
        async with desk.session.get(f"{url}/v1/gateway/payment/pay_x") as answer:
            assert answer.status == 401
    (outer,) = edge.spans
    (inner,) = stored_recorder.spans
    assert inner.context.trace_id == outer.context.trace_id
    assert inner.parent.span_id == outer.context.span_id


def test_tracing_is_off_by_default_and_not_imported(tmp_path):
    assert tracing.start_tracer(make_settings(tmp_path), AsyncExitStack()) is NULL_TRACER
    assert NULL_TRACER.start_request("x", FORGED, trusted=True) is NULL_SPAN
    assert observing.build_rest_observer(RequestObservers()) is None
    # nor does it cost an import
    code = "import sys, florin_server.app.service; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_missing_tracing_extra_is_reported(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "florin_server.app.telemetry", None)
    monkeypatch.delattr(app, "telemetry")
    settings = make_settings(tmp_path, tracing=TracingSettings(endpoint="http://127.0.0.1:4317"))
    with pytest.raises(SetupError, match="florin-pay\\[otel\\]"):
        tracing.start_tracer(settings, AsyncExitStack())


async def test_a_collector_is_sent_the_spans(tmp_path):
    got: list[trace_service_pb2.ExportTraceServiceRequest] = []

    class Collector(trace_service_pb2_grpc.TraceServiceServicer):
        async def Export(self, request, context):
            got.append(request)
            return trace_service_pb2.ExportTraceServiceResponse()

    server = grpc.aio.server()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Collector(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        tracing_settings = TracingSettings(endpoint=f"http://127.0.0.1:{port}", ratio=1.0)
        async with open_service(tmp_path, tracing=tracing_settings) as desk:
            payment_id = (await desk.rest.create(ORDER))["paymentId"]
            await desk.rest.merchant_cancel(payment_id)
        # the service's end has exported the waiting spans
        resources = [resource_spans for request in got for resource_spans in request.resource_spans]
    finally:
        await server.stop(0)
    names = {
        a.key: a.value.string_value
        for resource_spans in resources
        for a in resource_spans.resource.attributes
    }
    assert names["service.name"] == "florin"
    spans = [
        s
        for resource_spans in resources
        for scope in resource_spans.scope_spans
        for s in scope.spans
    ]
    assert {"payment", "MerchantService.CreatePayment"} <= {span.name for span in spans}


async def test_a_collector_that_is_down_holds_nothing_up(tmp_path):
    # nothing listens there
    tracing_settings = TracingSettings(endpoint="http://127.0.0.1:9", ratio=1.0)
    async with open_service(tmp_path, tracing=tracing_settings) as desk:
        assert desk.service.app.traces.is_enabled
        offer = await desk.offer()
        await desk.confirm(offer)
        assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
