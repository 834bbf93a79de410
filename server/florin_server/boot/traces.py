"""Traces if the operator wants them, and what to say where the extra is missing."""

from __future__ import annotations

from contextlib import AsyncExitStack

from florin_server.boot.home import Refused
from florin_server.config import Settings
from florin_server.tracing import NO_TRACES, Traces


def start(settings: Settings, stack: AsyncExitStack) -> Traces:
    """Where spans go; Refused if they are wanted and OpenTelemetry is not installed."""
    if not settings.tracing.endpoint:
        return NO_TRACES
    try:
        # a second of imports, for those who want it
        from florin_server.boot import telemetry  # noqa: PLC0415
    except ImportError as error:
        raise Refused("traces need the extra: pip install 'florin-pay[otel]'") from error
    return telemetry.start(settings.tracing, stack)
