"""Where a client calls, as whom, and within what limits; what is wrong of it is told at once."""

from __future__ import annotations

import ipaddress
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc

from florin_client.calls.rpc import Call, Default
from florin_client.errors import FlorinError, error_of
from florin_client.retries import Attempts, Retries

SDK_NAME = "florin-client-python"
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_SCHEME = re.compile(r"^(dns|ipv4|ipv6):(//[^/]*/)?")

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    # a server lets a connection with calls on it be asked every 10 s, an idle one hardly ever
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 0),
    # a server that was started again is found soon: a call does not wait for two minutes
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of a client. `credentials` go with every call; `roots` is PEM, or the system's.

    ValueError for what no server would take. `clock` and `chance` are there to be replaced.
    """

    target: str
    credentials: Mapping[str, str]
    plaintext: bool
    roots: bytes | None
    timeout_s: float | None
    retries: Retries
    clock: Callable[[], float] = time.monotonic
    chance: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        if self.plaintext and self.roots is not None:
            raise ValueError("plaintext uses no certificates")
        if self.plaintext and not is_local(self.target):
            raise ValueError(
                f"plaintext is for this machine only, and {self.target} may be another: "
                "credentials would go there unencrypted"
            )
        for name, value in self.credentials.items():
            if not _PRINTABLE.fullmatch(value):
                raise ValueError(f"{name} is empty, or not printable ASCII")

    def attempts(self, timeout: float | Default | None, *, stream: bool = False) -> Attempts:
        """The attempts of a call that begins now; a stream has no deadline of its own."""
        if isinstance(timeout, Default):
            timeout = None if stream else self.timeout_s
        return Attempts(self.retries, timeout, self.clock, self.chance, stream)

    def tls(self) -> grpc.ChannelCredentials:
        """What TLS trusts."""
        return grpc.ssl_channel_credentials(self.roots)


def credentials_of(
    *,
    api_key: str | None,
    merchant_id: str | None,
    app_id: str | None,
    client_id: str | None,
    version: str | None,
    sdk: tuple[str, str],
) -> Mapping[str, str]:
    """The metadata of every call; ValueError unless it is either a key, or an app with a client."""
    if (api_key is None) == (app_id is None):
        raise ValueError("a client has either an api_key, or an app_id with a client_id")
    if (app_id is None) != (client_id is None):
        raise ValueError("app_id and client_id go together")
    if app_id is not None and merchant_id is not None:
        raise ValueError("a merchant_id goes with an api_key")
    entries = {
        "api-key": api_key,
        "merchant-id": merchant_id,
        "app-id": app_id,
        "client-id": client_id,
        "pay-version": version,
        "sdk-name": sdk[0],
        "sdk-version": sdk[1],
    }
    return {name: value for name, value in entries.items() if value is not None}


def is_local(target: str) -> bool:
    """True for a target that can only be this machine."""
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    place = _SCHEME.sub("", target)
    host = re.sub(r":\d+$", "", place) if place.count(":") == 1 or "]" in place else place
    host = host.strip("[]")
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def failure(error: grpc.RpcError, call: Call[Any]) -> FlorinError:
    """The exception that a failed attempt of a call is."""
    status = getattr(error, "code", lambda: grpc.StatusCode.UNKNOWN)()
    details = getattr(error, "details", lambda: str(error))()
    trailing = getattr(error, "trailing_metadata", lambda: ())()
    return error_of(
        status,
        details or "",
        [(key, value) for key, value in trailing or ()],
        request_id=call.request_id,
        idempotency_key=call.key,
    )
