"""Every bound and time of the gateway, in one place."""

from __future__ import annotations

from dataclasses import dataclass, field

from florin_gateway.forwarded import Network
from florin_gateway.profiles import Profile


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """How requests are translated.

    `cors_paths` names paths that browsers of every origin may read beyond the routes that say so
    themselves; one that ends in `*` is a prefix. `trusted_proxies` are the networks of those who
    are believed when they say whom they were called by.
    """

    deadline_s: float = 30.0
    # clients in the field give up after 30 s
    poll_s_max: float = 25.0
    # a read that takes longer than this is ended when its client leaves
    patience_s: float = 0.05
    body_bytes_max: int = 1 << 20
    cors_paths: tuple[str, ...] = ()
    cors_max_age_s: int = 7200
    trusted_proxies: tuple[Network, ...] = ()
    stream_event: str = "status"
    stream_retry_ms: int = 2000
    stream_heartbeat_s: float = 15.0
    stream_s_max: float = 600.0
    # how long a stream may stay silent before the answer's head is sent without an event
    stream_head_s: float = 1.0
    # one trailing slash and a doubled leading one do not make another path
    lenient_paths: bool = True
    # the JSON of every request; None: what its headers ask for, and that is never canonical
    profile: Profile | None = None
    # of canonical JSON, and of the query that comes with it; the others always ignore them
    ignore_unknown: bool = False


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """What a connection may do before its request reaches the gateway."""

    head_s_max: float = 5.0
    body_s_max: float = 5.0
    idle_s_max: int = 60
    head_bytes_max: int = 16 * 1024
    headers_max: int = 64
    body_bytes_max: int = 1 << 20


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where and how the HTTP server listens; port 0 takes a free one."""

    host: str = "127.0.0.1"
    port: int = 0
    backlog: int = 2048
    tls_certificate: str | None = None
    tls_key: str | None = None
    stop_s_max: int = 10
    guard: GuardSettings = field(default_factory=GuardSettings)
