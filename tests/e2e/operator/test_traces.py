"""A payment is one trace over REST, gRPC and settlement, and nobody forces one to be recorded."""

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
from florin_server import boot, logs
from florin_server.boot import traces as tracing
from florin_server.boot.home import Refused
from florin_server.boot.servers import gateway, observing
from florin_server.boot.servers.observing import Seen
from florin_server.boot.servers.upstream import Link
from florin_server.boot.telemetry import OtelTraces
from florin_server.config import TracingSettings
from florin_server.tracing import NO_SPAN, NO_TRACES
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.desk import ORDER, Desk, opened
from tests.support.service import settings
from tests.support.until import until
from tests.support.wallet import Wallet

FORGED = f"00-{'ab' * 16}-{'cd' * 8}-01"
LOCAL = ("127.0.0.0/8", "::1/128")


@dataclass
class Recorder:
    traces: OtelTraces
    exporter: InMemorySpanExporter

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [one for one in self.spans if one.name == name]

    def of(self, trace_id: int) -> dict[str, ReadableSpan]:
        return {one.name: one for one in self.spans if one.context.trace_id == trace_id}


def recorder(chance: Callable[[], float] = lambda: 0.5, **chosen: object) -> Recorder:
    exporter = InMemorySpanExporter()
    asked = TracingSettings(**{"endpoint": "http://127.0.0.1:4317", "ratio": 1.0, **chosen})
    return Recorder(OtelTraces(asked, SimpleSpanProcessor(exporter), chance), exporter)


@asynccontextmanager
async def recorded(home: Path, **chosen: object) -> AsyncIterator[tuple[Desk, Recorder]]:
    kept = recorder(**chosen)
    asked = TracingSettings(trusted_callers=chosen.get("trusted_callers", ()))
    async with opened(home, traces=kept.traces, tracing=asked) as desk:
        yield desk, kept


async def test_a_payment_is_one_trace_over_rest_and_grpc_into_settlement(tmp_path):
    async with recorded(tmp_path) as (desk, kept):
        wallet = Wallet()
        # created over gRPC, offered and confirmed over REST
        payment_id = (await desk.grpc.create(ORDER))["paymentId"]
        (option,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
        await desk.rest.confirm(payment_id, option["id"], wallet.execute_all(option))
        assert (await desk.final(payment_id))["status"] == "succeeded"
        await until(lambda: kept.named("payment"))
    (whole,) = kept.named("payment")
    assert whole.attributes["florin.id"] == payment_id
    assert whole.attributes["status"] == "succeeded"
    assert whole.parent is None
    steps = kept.of(whole.context.trace_id)
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
            assert step.parent.span_id == whole.context.span_id
            assert step.start_time >= whole.start_time
    assert steps["broadcast"].attributes["chain"].startswith("eip155:")
    # each call is linked with the request that made it, over REST too, and the other way round
    (link,) = steps["GatewayService.ConfirmPayment"].links
    (request,) = [one for one in kept.spans if one.context.span_id == link.context.span_id]
    assert whole.context.span_id in {one.context.span_id for one in request.links}
    assert request.name == "GatewayService.ConfirmPayment"
    assert request.attributes["http.response.status_code"] == 200
    told = {name for one in kept.spans for name in one.attributes}
    assert told <= {
        *("florin.id", "florin.payment_id", "status", "chain", "tx"),
        *("http.route", "http.response.status_code", "rpc.method", "rpc.response.status_code"),
    }


async def test_a_strangers_traceparent_is_linked_and_decides_nothing(tmp_path):
    chances = iter([0.9, 0.05, 0.9, 0.05])
    async with recorded(tmp_path, chance=lambda: next(chances), ratio=0.1) as (desk, kept):
        for _ in range(2):
            await desk.ask("GET", "/v1/gateway/payment/pay_x", {"traceparent": FORGED})
        stub = gateway_pb2_grpc.GatewayServiceStub(desk.channel)
        for _ in range(2):
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.GetPayment(
                    payment_pb2.GetPaymentRequest(payment_id="pay_x"),
                    metadata=(("traceparent", FORGED),),
                )
    spans = [one for one in kept.spans if one.name == "GatewayService.GetPayment"]
    # of each two one is recorded, by chance: REST with the call behind it, then gRPC
    assert len(spans) == 3
    roots = [one for one in spans if one.parent is None]
    assert len(roots) == 2
    for one in roots:
        assert one.context.trace_id != int("ab" * 16, 16)
        (link,) = one.links
        assert link.context.trace_id == int("ab" * 16, 16)


@pytest.mark.parametrize("flag", ["01", "00"])
async def test_a_trusted_caller_s_trace_goes_on(tmp_path, flag):
    parent = FORGED[:-2] + flag
    async with recorded(tmp_path, ratio=0.0, trusted_callers=LOCAL) as (desk, kept):
        await desk.ask("GET", "/v1/gateway/payment/pay_x", {"traceparent": parent})
        await desk.ask("GET", "/v1/gateway/payment/pay_y")
    found = kept.of(int("ab" * 16, 16))
    assert len(kept.spans) == (2 if flag == "01" else 0)
    assert found.keys() == ({"GatewayService.GetPayment"} if flag == "01" else set())


@pytest.mark.parametrize(
    "parent",
    ["", "x" * 5000, "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "ff" + FORGED[2:], FORGED + "-x"],
)
async def test_a_broken_traceparent_is_no_fault_of_a_request(tmp_path_factory, parent):
    kept = recorder()
    span = kept.traces.request("x", parent, believed=True)
    span.end()
    (one,) = kept.spans
    assert one.parent is None
    assert not one.links


async def test_a_line_of_the_log_names_the_trace_of_its_request():
    kept = recorder()

    async def request() -> str:
        kept.traces.request("x").end()
        return logs.TRACE.get()

    named = await asyncio.create_task(request())
    (span,) = kept.spans
    assert named == f"{span.context.trace_id:032x}"
    assert logs.TRACE.get() == ""


async def test_keys_of_the_collector_are_hidden_from_the_log(tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=florin-team,x-key=collector-s3cr3t")
    wanted = settings(tmp_path, tracing=TracingSettings(endpoint="http://127.0.0.1:9"))
    async with AsyncExitStack() as stack:
        tracing.start(wanted, stack)
    assert logs.redactor("it said collector-s3cr3t") == "it said [hidden]"


def test_nobody_has_more_recorded_than_the_settings_say():
    kept = recorder(spans_per_second=5)
    for number in range(1000):
        kept.traces.step(f"pay_{number}", "broadcast", 1, 2)
    assert 5 <= len(kept.spans) < 200


def test_of_a_payment_all_processes_record_the_same():
    one, other = recorder(ratio=0.5), recorder(ratio=0.5)
    names = [f"pay_{number}" for number in range(200)]
    for name in names:
        one.traces.step(name, "broadcast", 1, 2)
        other.traces.whole(name, "payment", 1, 2)
    first = {span.context.trace_id: span.parent.span_id for span in one.spans}
    assert first == {span.context.trace_id: span.context.span_id for span in other.spans}
    assert 60 < len(first) < 140


async def test_a_gateway_elsewhere_hands_its_trace_on(tmp_path):
    kept, edge = recorder(ratio=0.0), recorder()
    token = "t" * 40
    async with (
        opened(tmp_path, traces=kept.traces, gateway_token=token) as desk,
        AsyncExitStack() as stack,
    ):
        url = await gateway.start_remote(
            desk.service.grpc.target,
            gateway.bind("127.0.0.1", 0),
            stack,
            link=Link(token=token),
            observe=observing.of_rest(Seen(traces=edge.traces), tells=True),
        )
        async with desk.session.get(f"{url}/v1/gateway/payment/pay_x") as answer:
            assert answer.status == 401
    (outer,) = edge.spans
    (inner,) = kept.spans
    assert inner.context.trace_id == outer.context.trace_id
    assert inner.parent.span_id == outer.context.span_id


def test_unless_they_are_wanted_there_are_none(tmp_path):
    assert tracing.start(settings(tmp_path), AsyncExitStack()) is NO_TRACES
    assert NO_TRACES.request("x", FORGED, believed=True) is NO_SPAN
    assert observing.of_rest(Seen()) is None
    # nor does it cost an import
    code = "import sys, florin_server.boot.service; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "florin_server.boot.telemetry", None)
    monkeypatch.delattr(boot, "telemetry")
    wanted = settings(tmp_path, tracing=TracingSettings(endpoint="http://127.0.0.1:4317"))
    with pytest.raises(Refused, match="florin-pay\\[otel\\]"):
        tracing.start(wanted, AsyncExitStack())


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
        asked = TracingSettings(endpoint=f"http://127.0.0.1:{port}", ratio=1.0)
        async with opened(tmp_path, tracing=asked) as desk:
            payment_id = (await desk.rest.create(ORDER))["paymentId"]
            await desk.rest.merchant_cancel(payment_id)
        # the end of the service has handed over what waited
        resources = [one for request in got for one in request.resource_spans]
    finally:
        await server.stop(0)
    names = {a.key: a.value.string_value for one in resources for a in one.resource.attributes}
    assert names["service.name"] == "florin"
    spans = [s for one in resources for scope in one.scope_spans for s in scope.spans]
    assert {"payment", "MerchantService.CreatePayment"} <= {one.name for one in spans}


async def test_a_collector_that_is_down_holds_nothing_up(tmp_path):
    # nobody listens there
    asked = TracingSettings(endpoint="http://127.0.0.1:9", ratio=1.0)
    async with opened(tmp_path, tracing=asked) as desk:
        assert desk.service.app.traces.on
        offer = await desk.offer()
        await desk.confirm(offer)
        assert (await desk.final(offer.payment_id))["status"] == "succeeded"
