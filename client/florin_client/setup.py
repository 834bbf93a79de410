"""Target, credentials and limits of a client; invalid values raise at once."""

from __future__ import annotations

import ipaddress
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc

from florin_client.calls.rpc import DefaultTimeout, RpcCall
from florin_client.errors import FlorinError, error_of
from florin_client.retries import Retries, RetryState

SDK_NAME = "florin-client-python"
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_SCHEME = re.compile(r"^(dns|ipv4|ipv6):(//[^/]*/)?")

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    # a server permits a ping every 10 s on a connection with calls, rarely on an idle one
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 0),
    # a restarted server is found soon: a call does not wait for two minutes
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The settings of a client.

    `credentials` are sent with every call; `root_certificates` is PEM, or None for the system's.
    Raise ValueError for values that no server accepts. `clock` and `rng` can be replaced in tests.
    """

    target: str
    credentials: Mapping[str, str]
    plaintext: bool
    root_certificates: bytes | None
    timeout_s: float | None
    retries: Retries
    clock: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        if self.plaintext and self.root_certificates is not None:
            raise ValueError("plaintext uses no certificates: remove one of the two")
        if self.plaintext and not is_local(self.target):
            raise ValueError(
                f"plaintext is for this machine only, but {self.target} can be another: "
                "credentials would be sent unencrypted"
            )
        for name, value in self.credentials.items():
            if not _PRINTABLE.fullmatch(value):
                raise ValueError(f"{name} must be printable ASCII, and not empty")

    def start_attempts(
        self, timeout: float | DefaultTimeout | None, *, is_stream: bool = False
    ) -> RetryState:
        """Return the attempts of a call that starts now; a stream has no deadline of its own."""
        if isinstance(timeout, DefaultTimeout):
            timeout = None if is_stream else self.timeout_s
        return RetryState(self.retries, timeout, self.clock, self.rng, is_stream)

    def create_channel_credentials(self) -> grpc.ChannelCredentials:
        """Return the TLS credentials of the channel."""
        return grpc.ssl_channel_credentials(self.root_certificates)


def build_credentials(
    *,
    api_key: str | None,
    merchant_id: str | None,
    app_id: str | None,
    client_id: str | None,
    version: str | None,
    sdk: tuple[str, str],
) -> Mapping[str, str]:
    """Return the metadata of every call.

    Raise ValueError unless it has either a key, or an app with a client.
    """
    if (api_key is None) == (app_id is None):
        raise ValueError("pass either an api_key, or an app_id with a client_id")
    if (app_id is None) != (client_id is None):
        raise ValueError("pass app_id and client_id together")
    if app_id is not None and merchant_id is not None:
        raise ValueError("pass a merchant_id only with an api_key")
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
    """Return True for a target that can only be this machine."""
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


def to_florin_error(error: grpc.RpcError, call: RpcCall[Any]) -> FlorinError:
    """Return the exception for a failed attempt of a call."""
    status = getattr(error, "code", lambda: grpc.StatusCode.UNKNOWN)()
    details = getattr(error, "details", lambda: str(error))()
    trailing = getattr(error, "trailing_metadata", lambda: ())()
    return error_of(
        status,
        details or "",
        [(key, value) for key, value in trailing or ()],
        request_id=call.request_id,
        idempotency_key=call.idempotency_key,
    )
