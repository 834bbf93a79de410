"""Settings that decide whether traces are recorded, and how many."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork


class TracingSettings(BaseModel):
    """Traces for OpenTelemetry; they need the extra `otel`.

    Headers and certificates of the exporter come from the variables that OpenTelemetry names for
    them, such as `OTEL_EXPORTER_OTLP_HEADERS`.
    """

    model_config = ConfigDict(frozen=True)

    endpoint: str = Field(
        default="",
        pattern=r"^(https?://[^/@\s]+)?$",
        description="address of a collector for OTLP over gRPC, such as http://127.0.0.1:4317; "
        "empty: no traces",
    )
    ratio: float = Field(
        default=0.1, ge=0, le=1, description="share of requests and payments to record"
    )
    spans_per_second: int = Field(
        default=500,
        ge=1,
        description="largest number of spans recorded per second, for any share and caller; "
        "Florin drops the rest",
    )
    trusted_callers: tuple[IPvAnyNetwork, ...] = Field(
        default=(),
        description="networks of your own services: Florin continues their traces and follows "
        "their sampling decision; it only links the traces of others",
    )
