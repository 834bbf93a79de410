"""Headers of the API: what callers send beside a request, and are told beside an answer."""

from __future__ import annotations

from florin_gateway.settings import HeaderSettings

from florin_server.domain.versions import DEPLOYED_SDK

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
        # proves nothing here; whoever sends it is told what does
        "authorization",
    ),
    # an empty version is malformed, an empty credential is none
    kept_empty=("pay-version", "wcp-version"),
    deployed=("wcp-version", "pay-version"),
    # releases 1.0.4 and 1.0.5 send no version
    deployed_clients=(("sdk-name", DEPLOYED_SDK),),
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
