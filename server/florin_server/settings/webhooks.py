"""Settings of webhooks to merchants' back ends, and their limits."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork


class WebhookSettings(BaseModel):
    """The delivery of webhooks."""

    model_config = ConfigDict(frozen=True)

    networks: tuple[IPvAnyNetwork, ...] = Field(
        default=(),
        description="private networks in which endpoints are allowed, at any port and without "
        "TLS, for example `127.0.0.0/8` on your own machine; anyone who can create "
        "endpoints can then send requests there and see the responses",
    )
    endpoints_max: int = Field(
        default=10,
        ge=1,
        le=100,
        description="largest number of endpoints of one merchant, and of one partner",
    )
    timeout_s: float = Field(
        default=15.0, ge=1, le=60, description="seconds for an endpoint's complete response"
    )
    concurrency: int = Field(
        default=500,
        ge=10,
        le=5_000,
        description="simultaneous attempts of one process; a partner gets half of the free ones",
    )
    host_concurrency: int = Field(
        default=32,
        ge=1,
        le=1_000,
        description="simultaneous attempts to one host and port, and to one address or /64 network",
    )
    attempts_kept: int = Field(
        default=200,
        ge=10,
        le=10_000,
        description="latest attempts that Florin keeps of each endpoint",
    )
    answer_bytes: int = Field(
        default=1_000, ge=0, le=10_000, description="first bytes that Florin keeps of each response"
    )
    give_up_days: float = Field(
        default=3.0,
        ge=0.1,
        le=30,
        description="time for which Florin retries an event; an endpoint that accepted nothing "
        "for as long is paused, and its deliveries stay queued",
    )
