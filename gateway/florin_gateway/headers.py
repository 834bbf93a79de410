"""Headers in and out: a fixed list becomes metadata, a fixed list of metadata becomes headers."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping

from florin_gateway.errors import (
    HEADER_NOT_ASCII,
    INVALID_PARAMS,
    RefusedError,
    invalid_parameter,
)
from florin_gateway.profiles import Profile
from florin_gateway.rpc import Metadata

Headers = list[tuple[bytes, bytes]]

FORWARDED = {
    name.encode(): name
    for name in (
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
    )
}
# an empty version is malformed, an empty credential is none; each also says the profile
_KEPT_EMPTY = frozenset({b"pay-version", b"wcp-version"})

_HEADER_NAME = re.compile(rb"[a-z0-9]+(?:-[a-z0-9]+)*")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_TIMEOUT = re.compile(rb"(\d{1,8})([HMSmun])")
_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}

# asking the system for each id would let other threads in on every request
_PROCESS = os.urandom(8).hex()
_COUNTER = itertools.count()

_EXPOSED = (
    b"request-id, pay-version, wcp-version, ratelimit-policy, ratelimit, retry-after, "
    b"idempotent-replayed, deprecation, link"
)
_ALLOWED = (
    b"content-type, api-key, app-id, client-id, pay-version, wcp-version, api-version, "
    b"sdk-name, sdk-version, sdk-platform, idempotency-key, request-id, last-event-id"
)
_ALWAYS: Headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
_ANSWERED: dict[str, tuple[bytes, ...]] = {
    "pay-version": (b"pay-version", b"wcp-version"),
    "idempotent-replayed": (b"idempotent-replayed",),
    "ratelimit-policy": (b"ratelimit-policy",),
    "ratelimit": (b"ratelimit",),
}

CORS: Headers = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", _EXPOSED),
]
_PREFLIGHT: Headers = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", _ALLOWED),
]


# a proxy may read both spellings as one header, and the other way round
MISSPELT = "A header name is spelt with an underscore"


class Incoming:
    """What the gateway takes from a request's headers.

    Faults that must wait for their turn in the check order are kept: `not_ascii` names the first
    forwarded header whose value is not printable ASCII.
    """

    __slots__ = (
        "content_length",
        "content_type",
        "encoded",
        "last_event_id",
        "metadata",
        "not_ascii",
        "profile",
        "request_id",
        "timeout_s",
    )

    def __init__(self, request_id: str = "") -> None:
        self.metadata: list[tuple[str, str | bytes]] = []
        self.request_id = request_id
        self.profile = Profile.SPEC
        self.content_type: bytes | None = None
        self.content_length: int | None = None
        self.encoded = False
        self.last_event_id: bytes | None = None
        self.not_ascii: str | None = None
        self.timeout_s: float | None = None

    def check_ascii(self) -> None:
        """Refuse a credential or selector that no metadata can carry."""
        if self.not_ascii is not None:
            raise RefusedError(
                400, HEADER_NOT_ASCII, f"Header {self.not_ascii} is not printable ASCII"
            )

    def check_json(self) -> None:
        """Refuse a body that says it is no JSON; one that says nothing is read as JSON."""
        kind = (self.content_type or b"application/json").partition(b";")[0]
        if kind.strip().lower() != b"application/json":
            raise RefusedError(415, INVALID_PARAMS, "Content-Type is not application/json")


def request_id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The caller's own request id if it is well-formed, else a new one."""
    for name, value in headers:
        if name == b"request-id" and _REQUEST_ID.fullmatch(value):
            return value.decode("ascii")
    return new_request_id()


def new_request_id() -> str:
    """An id that occurs once; not a secret."""
    return f"{_PROCESS}{next(_COUNTER):08x}"


def read(headers: Iterable[tuple[bytes, bytes]], incoming: Incoming) -> None:
    """Fill `incoming` from lower-case headers; a known one that comes twice is refused."""
    metadata = incoming.metadata
    seen: list[bytes] = []
    for name, value in headers:
        take = _READERS.get(name)
        if take is None:
            continue
        seen.append(name)
        if not isinstance(take, str):
            take(incoming, value.strip(b" \t"))
            continue
        text = value.decode("latin-1").strip(" \t")
        # isprintable lets letters beyond ASCII pass, isascii control characters
        if not (text.isascii() and text.isprintable()):
            incoming.not_ascii = incoming.not_ascii or take
        elif text or name in _KEPT_EMPTY:
            metadata.append((take, text))
    if len(set(seen)) != len(seen):
        twice = next(name for name in seen if seen.count(name) > 1)
        raise RefusedError(400, INVALID_PARAMS, f"Header {twice.decode()} was sent more than once")
    if not incoming.request_id:
        incoming.request_id = new_request_id()
    metadata.append(("request-id", incoming.request_id))
    if b"wcp-version" in seen and b"pay-version" not in seen:
        incoming.profile = Profile.DEPLOYED


def check_aliases(aliases: Mapping[bytes, bytes]) -> None:
    """ValueError unless every alias is a header of its own that stands for a forwarded one."""
    for alias, header in aliases.items():
        if alias in _READERS or not _HEADER_NAME.fullmatch(alias):
            raise ValueError(f"{alias.decode()!r} cannot be an alias")
        if header not in FORWARDED or header in _KEPT_EMPTY:
            raise ValueError(f"{header.decode()!r} cannot have an alias")


def read_aliases(
    headers: Iterable[tuple[bytes, bytes]], incoming: Incoming, aliases: Mapping[bytes, bytes]
) -> None:
    """Take in aliases of headers that were not sent; one that comes twice is refused."""
    given: dict[bytes, bytes] = {}
    for name, value in headers:
        if b"_" in name and name.replace(b"_", b"-") in aliases:
            raise RefusedError(400, INVALID_PARAMS, MISSPELT)
        if name in given:
            raise RefusedError(
                400, INVALID_PARAMS, f"Header {name.decode()} was sent more than once"
            )
        if name in aliases:
            given[name] = value
    sent = {key for key, _ in incoming.metadata}
    for alias, value in given.items():
        key, text = FORWARDED[aliases[alias]], value.decode("latin-1").strip(" \t")
        if not (text.isascii() and text.isprintable()):
            incoming.not_ascii = incoming.not_ascii or alias.decode()
        elif text and key not in sent:
            incoming.metadata.append((key, text))
            sent.add(key)


def event_id(value: bytes) -> int:
    """The number in a Last-Event-ID; RefusedError if it is none."""
    if not value.isdigit() or len(value) > 18:
        raise invalid_parameter("Last-Event-ID", "must be an integer, 0 or more")
    return int(value)


def _request_id(incoming: Incoming, value: bytes) -> None:
    if _REQUEST_ID.fullmatch(value):
        incoming.request_id = value.decode("ascii")


def _content_type(incoming: Incoming, value: bytes) -> None:
    incoming.content_type = value or None


def _content_length(incoming: Incoming, value: bytes) -> None:
    if not value.isdigit() or len(value) > 18:
        raise RefusedError(400, INVALID_PARAMS, "Content-Length is not a number")
    incoming.content_length = int(value)


def _content_encoding(incoming: Incoming, value: bytes) -> None:
    incoming.encoded = value != b""


def _last_event_id(incoming: Incoming, value: bytes) -> None:
    incoming.last_event_id = value or None


def _timeout(incoming: Incoming, value: bytes) -> None:
    if found := _TIMEOUT.fullmatch(value):
        incoming.timeout_s = int(found[1]) * _SECONDS[found[2]]


# by header: the name of the metadata, or what takes the value in
_READERS: dict[bytes, str | Callable[[Incoming, bytes], None]] = {
    **FORWARDED,
    b"request-id": _request_id,
    b"content-type": _content_type,
    b"content-length": _content_length,
    b"content-encoding": _content_encoding,
    b"last-event-id": _last_event_id,
    b"grpc-timeout": _timeout,
}
# headers that say who calls, or where the message ends
DELICATE = frozenset({*FORWARDED, b"content-length", b"transfer-encoding", b"host"})


def answer_headers(
    request_id: str, metadata: Metadata, *, cors: bool, length: int | None = None
) -> Headers:
    """Headers of an answer; JSON unless its content type is replaced."""
    headers = [*_ALWAYS, (b"request-id", request_id.encode("ascii"))]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    for key, value in metadata:
        names = _ANSWERED.get(key)
        if names and isinstance(value, str) and value.isascii() and value.isprintable():
            told = value.encode("ascii")
            headers += [(name, told) for name in names]
    if cors:
        headers += CORS
    return headers


def preflight_headers(request_id: str, max_age_s: int) -> Headers:
    """Headers of the answer to a browser's OPTIONS."""
    return [
        *_PREFLIGHT,
        (b"access-control-max-age", b"%d" % max_age_s),
        (b"cache-control", b"no-store"),
        (b"request-id", request_id.encode("ascii")),
    ]
