"""Traces by OpenTelemetry, which comes with the extra `otel` and is imported only if wanted.

The decision to record is made here, before a span is made: callers cannot cause recording unless
the operator trusts them, and no more is recorded per second than the settings allow. Spans wait in
a queue of bounded length, which drops what does not fit.
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
from florin_server.base import logs
from florin_server.base.tracing import NULL_SPAN, AttributeValue, Span
from florin_server.domain.gcra import GcraLimiter
from florin_server.settings import TracingSettings

_QUEUE, _BATCH = 2048, 512
_LIMITS = SpanLimits(max_attributes=32, max_events=8, max_links=8, max_attribute_length=128)
_HALF_BITS = 1 << 64
_HEADERS = re.compile(r"OTEL_EXPORTER_OTLP_(?:TRACES_)?HEADERS")
_PROPAGATOR = TraceContextTextMapPropagator()
_SAMPLED_FLAGS = TraceFlags(TraceFlags.SAMPLED)

# the span of the request in progress, or that it has none
_CURRENT_SPAN: ContextVar[Any] = ContextVar("florin_span", default=None)


class _PresetIdGenerator(RandomIdGenerator):
    """Ids by chance, unless those of the next span are given."""

    def __init__(self) -> None:
        self.next_ids: tuple[int, int] | None = None

    def generate_trace_id(self) -> int:
        return self.next_ids[0] if self.next_ids else super().generate_trace_id()

    def generate_span_id(self) -> int:
        return self.next_ids[1] if self.next_ids else super().generate_span_id()


class _RecordedSpan:
    """A span that is recorded."""

    __slots__ = ("span", "traceparent")

    def __init__(self, span: Any) -> None:
        self.span = span
        span_context = span.get_span_context()
        ids = f"{format_trace_id(span_context.trace_id)}-{format_span_id(span_context.span_id)}"
        self.traceparent = f"00-{ids}-01"

    def end(self, name: str = "", /, **attributes: AttributeValue) -> None:
        """End the span."""
        if name:
            self.span.update_name(name)
        self.span.set_attributes(attributes)
        self.span.end()


class OtelTracer:
    """Records spans; `draw` returns a random number from 0 to 1."""

    is_enabled = True

    def __init__(
        self,
        settings: TracingSettings,
        processor: SpanProcessor,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._ids = _PresetIdGenerator()
        resource_attributes = {
            "service.name": "florin",
            "service.version": florin_server.__version__,
        }
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create(resource_attributes),
            id_generator=self._ids,
            span_limits=_LIMITS,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("florin")
        self._ratio = settings.ratio
        self._draw = draw
        most = settings.spans_per_second
        self._rate_limiter = GcraLimiter(most * 60, most, 1)

    def start_request(self, name: str, parent: str = "", *, trusted: bool = False) -> Span:
        """Start a request."""
        current = _CURRENT_SPAN.get()
        if current is not None:
            return (
                self._start_span(name, set_span_in_context(current.span)) if current else NULL_SPAN
            )
        context, links = Context(), []
        recorded = None
        if parent:
            parent_context = _PROPAGATOR.extract({"traceparent": parent}, Context())
            span_context = get_current_span(parent_context).get_span_context()
            if span_context.is_valid and trusted:
                context, recorded = parent_context, span_context.trace_flags.sampled
            elif span_context.is_valid:
                links = [Link(span_context)]
        if recorded is None:
            recorded = self._draw() < self._ratio
        span = self._start_span(name, context, links) if recorded else NULL_SPAN
        _CURRENT_SPAN.set(span if isinstance(span, _RecordedSpan) else False)
        return span

    def _start_span(self, name: str, context: Context, links: list[Link] | None = None) -> Span:
        if not self._is_within_rate():
            return NULL_SPAN
        created_span = self._tracer.start_span(name, context, SpanKind.SERVER, links=links)
        span = _RecordedSpan(created_span)
        logs.TRACE.set(format_trace_id(created_span.get_span_context().trace_id))
        return span

    def record_step(
        self, subject: str, name: str, began_us: int, ended_us: int, **attributes: AttributeValue
    ) -> None:
        """Record a step of a payment or payout."""
        ids = _compute_ids(subject)
        if not self._is_sampled(ids):
            return
        span_context = SpanContext(*ids, is_remote=True, trace_flags=_SAMPLED_FLAGS)
        links = []
        if current := _CURRENT_SPAN.get():
            links = [Link(current.span.get_span_context())]
            current.span.add_link(span_context)
        self._record_span(
            name,
            set_span_in_context(NonRecordingSpan(span_context)),
            links,
            (began_us, ended_us),
            attributes,
        )

    def record_root(
        self, subject: str, name: str, began_us: int, ended_us: int, **attributes: AttributeValue
    ) -> None:
        """Record the whole of which its steps are parts."""
        ids = _compute_ids(subject)
        if not self._is_sampled(ids):
            return
        # nothing else is created until this span is
        self._ids.next_ids = ids
        try:
            self._record_span(
                name, Context(), [], (began_us, ended_us), {"florin.id": subject, **attributes}
            )
        finally:
            self._ids.next_ids = None

    def _record_span(
        self,
        name: str,
        context: Context,
        links: list[Link],
        times: tuple[int, int],
        attributes: dict[str, AttributeValue],
    ) -> None:
        began_us, ended_us = times
        span = self._tracer.start_span(
            name, context, attributes=attributes, links=links, start_time=began_us * 1000
        )
        span.end(max(began_us, ended_us) * 1000)

    def _is_sampled(self, ids: tuple[int, int]) -> bool:
        """Decide alike in all processes: all steps of a payment are recorded, or none."""
        return ids[0] % _HALF_BITS < self._ratio * _HALF_BITS and self._is_within_rate()

    def _is_within_rate(self) -> bool:
        return self._rate_limiter.take("", time.monotonic_ns() // 1000).admitted

    async def close(self) -> None:
        """Send the queue, as far as the collector accepts it in some seconds."""
        await asyncio.to_thread(self._provider.shutdown)


def _compute_ids(subject: str) -> tuple[int, int]:
    """Return the ids of the trace of a payment or payout, and of the span that is all of it."""
    digest = blake2b(subject.encode(), digest_size=24, person=b"florin trace").digest()
    return int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:]) or 1


def start_tracer(settings: TracingSettings, stack: AsyncExitStack) -> OtelTracer:
    """Record spans and send them to the collector of the settings."""
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )

    # pairs of names and values, of which some are keys
    header_texts = (text for name, text in os.environ.items() if _HEADERS.fullmatch(name))
    logs.redactor.hide(
        header_entry.partition("=")[2] for text in header_texts for header_entry in text.split(",")
    )
    exporter = OTLPSpanExporter(endpoint=settings.endpoint, timeout=5)
    queue = BatchSpanProcessor(
        exporter, max_queue_size=_QUEUE, max_export_batch_size=_BATCH, export_timeout_millis=5000
    )
    traces = OtelTracer(settings, queue)
    stack.push_async_callback(traces.close)
    return traces
