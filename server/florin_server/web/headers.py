"""Headers of the API, in requests and in answers, and how the gateway treats its services."""

from __future__ import annotations

from grpc_rest_gateway.jsonignored import IGNORED_KEY
from grpc_rest_gateway.settings import GatewaySettings, HeaderSettings

from florin_server.api.server.metadata import CALLER_KEYS, SDK_KEYS, VERSION_KEYS
from florin_server.domain.versions import DEPLOYED_SDK

HEADERS = HeaderSettings(
    forwarded_headers=CALLER_KEYS,
    # an empty version is malformed, an empty credential counts as missing
    empty_forwarded_headers=VERSION_KEYS,
    deployed_profile_headers=("wcp-version", "pay-version"),
    # releases 1.0.4 and 1.0.5 send no version
    deployed_profile_clients=(("sdk-name", DEPLOYED_SDK),),
    response_headers=(
        ("pay-version", VERSION_KEYS),
        ("idempotent-replayed", ("idempotent-replayed",)),
        ("ratelimit-policy", ("ratelimit-policy",)),
        ("ratelimit", ("ratelimit",)),
        (IGNORED_KEY, ("florin-ignored",)),
    ),
    exposed_headers=(
        "request-id",
        *VERSION_KEYS,
        "ratelimit-policy",
        "ratelimit",
        "retry-after",
        "idempotent-replayed",
        "florin-ignored",
        "deprecation",
        "link",
    ),
    allowed_headers=(
        "content-type",
        "api-key",
        "app-id",
        "client-id",
        *VERSION_KEYS,
        "api-version",
        *SDK_KEYS,
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
