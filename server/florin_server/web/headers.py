"""Headers of the API: what callers send beside a request, and are told beside an answer."""

from __future__ import annotations

from florin_gateway.settings import HeaderSettings

HEADERS = HeaderSettings(
    forwarded=(
        "api-key",
        "merchant-id",
        "app-id",
        "client-id",
        "pay-version",
        "wcp-version",
        "sdk-name",
        "sdk-version",
        "sdk-platform",
        "idempotency-key",
    ),
    # an empty version is malformed, an empty credential is none
    kept_empty=("pay-version", "wcp-version"),
    deployed=("wcp-version", "pay-version"),
    answered=(
        ("pay-version", ("pay-version", "wcp-version")),
        ("idempotent-replayed", ("idempotent-replayed",)),
        ("ratelimit-policy", ("ratelimit-policy",)),
        ("ratelimit", ("ratelimit",)),
    ),
    exposed=(
        "request-id",
        "pay-version",
        "wcp-version",
        "ratelimit-policy",
        "ratelimit",
        "retry-after",
        "idempotent-replayed",
        "deprecation",
        "link",
    ),
    allowed=(
        "content-type",
        "api-key",
        "app-id",
        "client-id",
        "pay-version",
        "wcp-version",
        "api-version",
        "sdk-name",
        "sdk-version",
        "sdk-platform",
        "idempotency-key",
        "request-id",
        "last-event-id",
    ),
)
