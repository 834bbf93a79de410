"""All limits and times of the gateway, in one place.

The metadata of each field has its purpose, under `why`.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from grpc_rest_gateway.forwarded import Network, TrustedProxies
from grpc_rest_gateway.profiles import JsonProfile


@dataclass(frozen=True, slots=True)
class HeaderSettings:
    """Headers that the services use, in lower case, besides the headers of every exchange."""

    forwarded_headers: tuple[str, ...] = field(
        default=(),
        metadata={"why": "headers that become metadata: credentials, versions, keys"},
    )
    empty_forwarded_headers: tuple[str, ...] = field(
        default=(), metadata={"why": "forwarded headers whose empty value counts as sent"}
    )
    deployed_profile_headers: tuple[()] | tuple[str, str] = field(
        default=(),
        metadata={
            "why": "a request with the first header and without the second uses the deployed "
            "profile"
        },
    )
    deployed_profile_clients: tuple[tuple[str, str], ...] = field(
        default=(),
        metadata={
            "why": "headers and values, case-insensitive, that select the deployed profile "
            "if neither of those headers is sent"
        },
    )
    response_headers: tuple[tuple[str, tuple[str, ...]], ...] = field(
        default=(), metadata={"why": "metadata of a response, and the headers that it becomes"}
    )
    exposed_headers: tuple[str, ...] = field(
        default=("request-id", "retry-after", "deprecation", "link"),
        metadata={"why": "response headers that scripts of every origin can read"},
    )
    allowed_headers: tuple[str, ...] = field(
        default=("content-type", "request-id", "last-event-id"),
        metadata={"why": "headers that scripts of every origin can send"},
    )


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Settings of the translation of requests."""

    deadline_s: float = field(
        default=30.0, metadata={"why": "a longer call gets 503: clients give up by then"}
    )
    poll_s_max: float = field(
        default=25.0, metadata={"why": "the longest poll: it ends before clients give up"}
    )
    disconnect_watch_delay_s: float = field(
        default=0.05, metadata={"why": "a longer read ends when its client leaves"}
    )
    body_bytes_max: int = field(default=1 << 20, metadata={"why": "a longer body gets 413"})
    cors_paths: tuple[str, ...] = field(
        default=(),
        metadata={
            "why": "paths that browsers of every origin can read, beyond routes with that "
            "option; a path that ends in `*` is a prefix"
        },
    )
    cors_max_age_s: int = field(
        default=7200, metadata={"why": "how long browsers cache these permissions"}
    )
    headers: HeaderSettings = field(
        default_factory=HeaderSettings, metadata={"why": "headers that the services use"}
    )
    proxies: TrustedProxies = field(
        default_factory=TrustedProxies,
        metadata={"why": "proxies whose forwarding headers are trusted"},
    )
    stream_event: str = field(default="message", metadata={"why": "name of a stream's events"})
    stream_retry_ms: int = field(
        default=2000, metadata={"why": "delay before browsers reopen a broken stream"}
    )
    stream_heartbeat_s: float = field(
        default=15.0, metadata={"why": "interval of heartbeats on a silent stream, for proxies"}
    )
    stream_s_max: float = field(
        default=600.0, metadata={"why": "a stream ends then, and its client reopens it"}
    )
    stream_head_s: float = field(
        default=1.0,
        metadata={"why": "after this silence, a stream sends its head without an event"},
    )
    map_codes: bool = field(
        default=True,
        metadata={
            "why": "a status without an HTTP status of its own gets that of its gRPC code, with "
            "its message; off: 500 without a message"
        },
    )
    defer_faults: bool = field(
        default=False,
        metadata={
            "why": "unreadable requests are refused by the service, after it has checked the "
            "caller: it must answer a call with `gateway-fault-bin` with that status"
        },
    )
    error_domain: str = field(
        default="rest-gateway",
        metadata={"why": "domain of the ErrorInfo in `gateway-fault-bin`"},
    )
    lenient_paths: bool = field(
        default=True,
        metadata={"why": "ignore one trailing slash, and a doubled leading slash"},
    )
    profile: JsonProfile | None = field(
        default=None,
        metadata={
            "why": "the JSON profile of every request; unset: selected by headers, and never "
            "canonical"
        },
    )
    ignore_unknown: bool = field(
        default=False,
        metadata={
            "why": "ignore unknown members of canonical JSON and of its query; other profiles "
            "always ignore them"
        },
    )


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """Limits of a connection before its request reaches the gateway."""

    head_s_max: float = field(
        default=5.0, metadata={"why": "a slower head gets 408: it occupies a connection"}
    )
    body_s_max: float = field(default=5.0, metadata={"why": "a slower body gets 408"})
    idle_s_max: int = field(default=60, metadata={"why": "an idle connection is closed then"})
    head_bytes_max: int = field(default=16 * 1024, metadata={"why": "a longer head gets 431"})
    headers_max: int = field(default=64, metadata={"why": "more headers get 431"})
    body_bytes_max: int = field(default=1 << 20, metadata={"why": "a longer body gets 413"})
    proxy_protocol: tuple[Network, ...] = field(
        default=(),
        metadata={"why": "networks of peers whose connections start with a PROXY header"},
    )


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Address and limits of the HTTP server."""

    host: str = field(default="127.0.0.1", metadata={"why": "address to listen on"})
    port: int = field(default=0, metadata={"why": "0 selects a free port"})
    backlog: int = field(
        default=2048, metadata={"why": "connections that wait for accept: callers come in bursts"}
    )
    tls: ssl.SSLContext | None = field(
        default=None, metadata={"why": "unset: plain text, for a proxy in front"}
    )
    stop_s_max: int = field(default=10, metadata={"why": "time for open calls to finish"})
    guard: GuardSettings = field(
        default_factory=GuardSettings, metadata={"why": "limits of a connection"}
    )
