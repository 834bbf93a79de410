"""Every bound and time of the gateway, in one place.

What a field is for is in its metadata, under `why`.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from florin_gateway.forwarded import Network, Proxies
from florin_gateway.profiles import Profile


@dataclass(frozen=True, slots=True)
class HeaderSettings:
    """Headers that the services know, in lower case, beside those of every request and answer."""

    forwarded: tuple[str, ...] = field(
        default=(),
        metadata={"why": "become metadata of the same name: credentials, versions, keys"},
    )
    kept_empty: tuple[str, ...] = field(
        default=(), metadata={"why": "of the forwarded ones, those that count when they are empty"}
    )
    deployed: tuple[()] | tuple[str, str] = field(
        default=(),
        metadata={
            "why": "a request with the first header and without the second is in the deployed "
            "profile"
        },
    )
    deployed_clients: tuple[tuple[str, str], ...] = field(
        default=(),
        metadata={
            "why": "forwarded headers with a value, in any case, that select the deployed profile "
            "where neither of those headers is sent"
        },
    )
    answered: tuple[tuple[str, tuple[str, ...]], ...] = field(
        default=(), metadata={"why": "metadata of an answer, and the headers that it becomes"}
    )
    exposed: tuple[str, ...] = field(
        default=("request-id", "retry-after", "deprecation", "link"),
        metadata={"why": "headers of answers that scripts of every origin may read"},
    )
    allowed: tuple[str, ...] = field(
        default=("content-type", "request-id", "last-event-id"),
        metadata={"why": "headers that scripts of every origin may send"},
    )


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """How requests are translated."""

    deadline_s: float = field(
        default=30.0, metadata={"why": "a longer call is answered 503: clients give up by then"}
    )
    poll_s_max: float = field(
        default=25.0, metadata={"why": "the longest poll: its answer comes before they give up"}
    )
    patience_s: float = field(
        default=0.05, metadata={"why": "a longer read is ended when its client leaves"}
    )
    body_bytes_max: int = field(default=1 << 20, metadata={"why": "a longer body is answered 413"})
    cors_paths: tuple[str, ...] = field(
        default=(),
        metadata={
            "why": "paths that browsers of every origin may read, beyond the routes that say so "
            "themselves; one that ends in `*` is a prefix"
        },
    )
    cors_max_age_s: int = field(
        default=7200, metadata={"why": "how long browsers remember what they may read"}
    )
    headers: HeaderSettings = field(
        default_factory=HeaderSettings, metadata={"why": "headers that the services know"}
    )
    proxies: Proxies = field(
        default_factory=Proxies,
        metadata={"why": "who is believed when they say who called them"},
    )
    stream_event: str = field(default="status", metadata={"why": "name of an event of a stream"})
    stream_retry_ms: int = field(
        default=2000, metadata={"why": "when browsers are to open a stream again that broke"}
    )
    stream_heartbeat_s: float = field(
        default=15.0, metadata={"why": "a silent stream says so often that it lives, for proxies"}
    )
    stream_s_max: float = field(
        default=600.0, metadata={"why": "a stream ends then, and its client opens another"}
    )
    stream_head_s: float = field(
        default=1.0,
        metadata={"why": "a stream that is silent for so long has its head sent without an event"},
    )
    lenient_paths: bool = field(
        default=True,
        metadata={"why": "one trailing slash, or a doubled leading one, makes no other path"},
    )
    profile: Profile | None = field(
        default=None,
        metadata={
            "why": "the JSON of every request; unset: what its headers ask for, and that is never "
            "canonical"
        },
    )
    ignore_unknown: bool = field(
        default=False,
        metadata={
            "why": "unknown members of canonical JSON, and of the query that comes with it, are "
            "ignored; those of the others always are"
        },
    )


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """What a connection may do before its request reaches the gateway."""

    head_s_max: float = field(
        default=5.0, metadata={"why": "a slower head is answered 408: it holds a connection"}
    )
    body_s_max: float = field(default=5.0, metadata={"why": "a slower body is answered 408"})
    idle_s_max: int = field(
        default=60, metadata={"why": "a connection without a request is closed then"}
    )
    head_bytes_max: int = field(
        default=16 * 1024, metadata={"why": "a longer head is answered 431"}
    )
    headers_max: int = field(default=64, metadata={"why": "more headers are answered 431"})
    body_bytes_max: int = field(default=1 << 20, metadata={"why": "a longer body is answered 413"})
    proxy_protocol: tuple[Network, ...] = field(
        default=(),
        metadata={"why": "networks of peers whose connections begin with a PROXY header"},
    )


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where and how the HTTP server listens."""

    host: str = field(default="127.0.0.1", metadata={"why": "address to listen on"})
    port: int = field(default=0, metadata={"why": "0 takes a free one"})
    backlog: int = field(
        default=2048, metadata={"why": "connections that wait to be accepted: callers come at once"}
    )
    tls: ssl.SSLContext | None = field(
        default=None, metadata={"why": "unset: plain text, for a proxy in front"}
    )
    stop_s_max: int = field(default=10, metadata={"why": "what open calls get to finish"})
    guard: GuardSettings = field(
        default_factory=GuardSettings, metadata={"why": "what a connection may do"}
    )
