"""Headers of the API, in requests and in answers, and how the gateway treats its services."""

from __future__ import annotations

from grpc_rest_gateway.settings import GatewaySettings, HeaderSettings

from florin_server.domain.versions import DEPLOYED_SDK

HEADERS = HeaderSettings(
    forwarded_headers=(
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
        # no credential of this API; it is forwarded so that the error can name the right one
        "authorization",
    ),
    # an empty version is malformed, an empty credential counts as missing
    empty_forwarded_headers=("pay-version", "wcp-version"),
    deployed_profile_headers=("wcp-version", "pay-version"),
    # releases 1.0.4 and 1.0.5 send no version
    deployed_profile_clients=(("sdk-name", DEPLOYED_SDK),),
    response_headers=(
        ("pay-version", ("pay-version", "wcp-version")),
        ("idempotent-replayed", ("idempotent-replayed",)),
        ("ratelimit-policy", ("ratelimit-policy",)),
        ("ratelimit", ("ratelimit",)),
    ),
    exposed_headers=(
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
    allowed_headers=(
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

# the services describe every error that a caller may see, and check the caller first
GATEWAY_SETTINGS = GatewaySettings(
    headers=HEADERS,
    stream_event="status",
    map_codes=False,
    defer_faults=True,
    error_domain="florin",
)
