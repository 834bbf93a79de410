"""Traces if the operator wants them, and what to say where the extra is missing."""

from __future__ import annotations

from contextlib import AsyncExitStack

from florin_server.app.home import SetupError
from florin_server.base.tracing import NULL_TRACER, Tracer
from florin_server.settings import Settings


def start_tracer(settings: Settings, stack: AsyncExitStack) -> Tracer:
    """Return the tracer; SetupError if traces are wanted and OpenTelemetry is not installed."""
    if not settings.tracing.endpoint:
        return NULL_TRACER
    try:
        # a second of imports, only if traces are wanted
        from florin_server.app import telemetry  # noqa: PLC0415
    except ImportError as error:
        raise SetupError("traces need the extra: pip install 'florin-pay[otel]'") from error
    return telemetry.start_tracer(settings.tracing, stack)
