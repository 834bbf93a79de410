"""Where merchants' back ends are told of changes, and how much that may cost."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork


class WebhookSettings(BaseModel):
    """How webhooks are delivered."""

    model_config = ConfigDict(frozen=True)

    networks: tuple[IPvAnyNetwork, ...] = Field(
        default=(),
        description="networks that are not public and that endpoints may be in all the same, at "
        "any port and without TLS, e.g. `127.0.0.0/8` on your own machine: whoever may create "
        "endpoints can then have requests sent there, and sees how they are answered",
    )
    endpoints_max: int = Field(
        default=10, ge=1, le=100, description="endpoints of one merchant, and of one partner"
    )
    timeout_s: float = Field(
        default=15.0, ge=1, le=60, description="what an endpoint has for its answer, all in all"
    )
    concurrency: int = Field(
        default=500,
        ge=10,
        le=5_000,
        description="attempts of one process at the same time; a partner gets half of what others "
        "leave",
    )
    host_concurrency: int = Field(
        default=32,
        ge=1,
        le=1_000,
        description="of them, to one host and port, and to one address, or /64 network, of any",
    )
    attempts_kept: int = Field(
        default=200, ge=10, le=10_000, description="of each endpoint, the last ones"
    )
    answer_bytes: int = Field(
        default=1_000, ge=0, le=10_000, description="of each answer, the first ones are kept"
    )
    give_up_days: float = Field(
        default=3.0,
        ge=0.1,
        le=30,
        description="how long an event is tried; an endpoint that took nothing for as long is "
        "paused. What waits for it is kept",
    )
