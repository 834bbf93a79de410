"""Traces by OpenTelemetry, which is there with the extra `otel` and imported only if wanted.

Whether something is recorded is decided here, before a span is made: nobody who calls can have it
recorded, unless the operator trusts it, and nobody can have more recorded in a second than the
settings say. Spans wait in a queue of bounded length, which drops what does not fit.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    format_span_id,
    format_trace_id,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import florin_server
from florin_server import logs
from florin_server.config import TracingSettings
from florin_server.domain.gcra import Bucket
from florin_server.tracing import NO_SPAN, Span, Told

_QUEUE, _BATCH = 2048, 512
_LIMITS = SpanLimits(max_attributes=32, max_events=8, max_links=8, max_attribute_length=128)
_HALF = 1 << 64
_HEADERS = re.compile(r"OTEL_EXPORTER_OTLP_(?:TRACES_)?HEADERS")
_PROPAGATOR = TraceContextTextMapPropagator()
_RECORDED = TraceFlags(TraceFlags.SAMPLED)

# the span of the request under way, or that it has none
_CURRENT: ContextVar[Any] = ContextVar("florin_span", default=None)


class _Ids(RandomIdGenerator):
    """Ids by chance, unless those of the next span are given."""

    def __init__(self) -> None:
        self.given: tuple[int, int] | None = None

    def generate_trace_id(self) -> int:
        return self.given[0] if self.given else super().generate_trace_id()

    def generate_span_id(self) -> int:
        return self.given[1] if self.given else super().generate_span_id()


class _Recorded:
    """A span that is recorded."""

    __slots__ = ("span", "traceparent")

    def __init__(self, span: Any) -> None:
        self.span = span
        known = span.get_span_context()
        ids = f"{format_trace_id(known.trace_id)}-{format_span_id(known.span_id)}"
        self.traceparent = f"00-{ids}-01"

    def end(self, name: str = "", /, **told: Told) -> None:
        """It is over."""
        if name:
            self.span.update_name(name)
        self.span.set_attributes(told)
        self.span.end()


class OtelTraces:
    """Records spans; `chance` tells a number from 0 to 1, each as likely as any other."""

    on = True

    def __init__(
        self,
        settings: TracingSettings,
        processor: SpanProcessor,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._ids = _Ids()
        told = {"service.name": "florin", "service.version": florin_server.__version__}
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create(told),
            id_generator=self._ids,
            span_limits=_LIMITS,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("florin")
        self._ratio = settings.ratio
        self._chance = chance
        most = settings.spans_per_second
        self._bucket = Bucket(most * 60, most, 1)

    def request(self, name: str, parent: str = "", *, believed: bool = False) -> Span:
        """Begins a request."""
        current = _CURRENT.get()
        if current is not None:
            return self._begin(name, set_span_in_context(current.span)) if current else NO_SPAN
        context, links = Context(), []
        recorded = None
        if parent:
            given = _PROPAGATOR.extract({"traceparent": parent}, Context())
            known = get_current_span(given).get_span_context()
            if known.is_valid and believed:
                context, recorded = given, known.trace_flags.sampled
            elif known.is_valid:
                links = [Link(known)]
        if recorded is None:
            recorded = self._chance() < self._ratio
        span = self._begin(name, context, links) if recorded else NO_SPAN
        _CURRENT.set(span if isinstance(span, _Recorded) else False)
        return span

    def _begin(self, name: str, context: Context, links: list[Link] | None = None) -> Span:
        if not self._has_room():
            return NO_SPAN
        made = self._tracer.start_span(name, context, SpanKind.SERVER, links=links)
        span = _Recorded(made)
        logs.TRACE.set(format_trace_id(made.get_span_context().trace_id))
        return span

    def step(self, subject: str, name: str, began_us: int, ended_us: int, **told: Told) -> None:
        """Tells a step of a payment or payout."""
        ids = _ids_of(subject)
        if not self._takes(ids):
            return
        whole = SpanContext(*ids, is_remote=True, trace_flags=_RECORDED)
        links = []
        if current := _CURRENT.get():
            links = [Link(current.span.get_span_context())]
            current.span.add_link(whole)
        self._tell(
            name, set_span_in_context(NonRecordingSpan(whole)), links, (began_us, ended_us), told
        )

    def whole(self, subject: str, name: str, began_us: int, ended_us: int, **told: Told) -> None:
        """Tells what its steps are a part of."""
        ids = _ids_of(subject)
        if not self._takes(ids):
            return
        # nothing else is made until this one is
        self._ids.given = ids
        try:
            self._tell(name, Context(), [], (began_us, ended_us), {"florin.id": subject, **told})
        finally:
            self._ids.given = None

    def _tell(
        self,
        name: str,
        context: Context,
        links: list[Link],
        times: tuple[int, int],
        told: dict[str, Told],
    ) -> None:
        began_us, ended_us = times
        span = self._tracer.start_span(
            name, context, attributes=told, links=links, start_time=began_us * 1000
        )
        span.end(max(began_us, ended_us) * 1000)

    def _takes(self, ids: tuple[int, int]) -> bool:
        """Alike in all processes: of a payment all steps are recorded, or none."""
        return ids[0] % _HALF < self._ratio * _HALF and self._has_room()

    def _has_room(self) -> bool:
        return self._bucket.take("", time.monotonic_ns() // 1000).admitted

    async def close(self) -> None:
        """Hands over what waits, as far as the collector takes it in some seconds."""
        await asyncio.to_thread(self._provider.shutdown)


def _ids_of(subject: str) -> tuple[int, int]:
    """The ids of the trace of a payment or payout, and of the span that is all of it."""
    digest = blake2b(subject.encode(), digest_size=24, person=b"florin trace").digest()
    return int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:]) or 1


def start(settings: TracingSettings, stack: AsyncExitStack) -> OtelTraces:
    """Records spans and sends them to the collector of the settings."""
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )

    # pairs of names and values, of which some are keys
    given = (text for name, text in os.environ.items() if _HEADERS.fullmatch(name))
    logs.redactor.hide(one.partition("=")[2] for text in given for one in text.split(","))
    exporter = OTLPSpanExporter(endpoint=settings.endpoint, timeout=5)
    queue = BatchSpanProcessor(
        exporter, max_queue_size=_QUEUE, max_export_batch_size=_BATCH, export_timeout_millis=5000
    )
    traces = OtelTraces(settings, queue)
    stack.push_async_callback(traces.close)
    return traces
