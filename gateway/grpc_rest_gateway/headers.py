"""Headers: a fixed list becomes metadata, a fixed list of metadata becomes headers."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from grpc_rest_gateway.errors import (
    HEADER_NOT_ASCII,
    INVALID_PARAMS,
    RefusedError,
    make_invalid_parameter_error,
)
from grpc_rest_gateway.profiles import JsonProfile
from grpc_rest_gateway.rpc import Metadata
from grpc_rest_gateway.settings import HeaderSettings

Headers = list[tuple[bytes, bytes]]

_HEADER_NAME = re.compile(rb"[a-z0-9]+(?:-[a-z0-9]+)*")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_TIMEOUT = re.compile(rb"(\d{1,8})([HMSmun])")
_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}

# one system call per id would switch threads on every request
_PROCESS_ID = os.urandom(8).hex()
_COUNTER = itertools.count()

_DEFAULT_HEADERS: Headers = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
]

# a proxy can treat both spellings as one header
MISSPELT_HEADER = "A header name contains an underscore"


class RequestHeaders:
    """The values that the gateway reads from a request's headers.

    Faults that must wait for their place in the check order are kept: `not_ascii` names the first
    forwarded header whose value is not printable ASCII.
    """

    __slots__ = (
        "content_length",
        "content_type",
        "has_content_encoding",
        "last_event_id",
        "metadata",
        "non_ascii_header",
        "profile",
        "request_id",
        "timeout_s",
    )

    def __init__(self, request_id: str = "") -> None:
        self.metadata: list[tuple[str, str | bytes]] = []
        self.request_id = request_id
        self.profile = JsonProfile.SPEC
        self.content_type: bytes | None = None
        self.content_length: int | None = None
        self.has_content_encoding = False
        self.last_event_id: bytes | None = None
        self.non_ascii_header: str | None = None
        self.timeout_s: float | None = None

    def check_ascii(self) -> None:
        """Refuse a credential or version that metadata cannot carry."""
        if self.non_ascii_header is not None:
            raise RefusedError(
                400, HEADER_NOT_ASCII, f"Header {self.non_ascii_header} is not printable ASCII"
            )

    def check_json(self) -> None:
        """Refuse a body whose media type is not JSON.

        A body without a media type is read as JSON.
        """
        kind = (self.content_type or b"application/json").partition(b";")[0]
        if kind.strip().lower() != b"application/json":
            raise RefusedError(415, INVALID_PARAMS, "Content-Type is not application/json")


def get_request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the caller's own request id if it is well-formed, else a new id."""
    for name, value in headers:
        if name == b"request-id" and _REQUEST_ID.fullmatch(value):
            return value.decode("ascii")
    return create_request_id()


def create_request_id() -> str:
    """Return a unique id; it is not secret."""
    return f"{_PROCESS_ID}{next(_COUNTER):08x}"


def parse_event_id(value: bytes) -> int:
    """Parse the number in a Last-Event-ID; raise RefusedError if it is not a number."""
    if not value.isdigit() or len(value) > 18:
        raise make_invalid_parameter_error("Last-Event-ID", "must be an integer, 0 or more")
    return int(value)


def _read_request_id(request_headers: RequestHeaders, value: bytes) -> None:
    if _REQUEST_ID.fullmatch(value):
        request_headers.request_id = value.decode("ascii")


def _read_content_type(request_headers: RequestHeaders, value: bytes) -> None:
    request_headers.content_type = value or None


def _read_content_length(request_headers: RequestHeaders, value: bytes) -> None:
    if not value.isdigit() or len(value) > 18:
        raise RefusedError(400, INVALID_PARAMS, "Content-Length is not a number")
    request_headers.content_length = int(value)


def _read_content_encoding(request_headers: RequestHeaders, value: bytes) -> None:
    request_headers.has_content_encoding = value != b""


def _read_last_event_id(request_headers: RequestHeaders, value: bytes) -> None:
    request_headers.last_event_id = value or None


def _read_timeout(request_headers: RequestHeaders, value: bytes) -> None:
    if match := _TIMEOUT.fullmatch(value):
        request_headers.timeout_s = int(match[1]) * _SECONDS[match[2]]


_OWN_READERS: dict[bytes, Callable[[RequestHeaders, bytes], None]] = {
    b"request-id": _read_request_id,
    b"content-type": _read_content_type,
    b"content-length": _read_content_length,
    b"content-encoding": _read_content_encoding,
    b"last-event-id": _read_last_event_id,
    b"grpc-timeout": _read_timeout,
}


class HeaderRules:
    """The headers that the gateway accepts and sends for the services behind it."""

    def __init__(self, settings: HeaderSettings) -> None:
        self._forwarded_headers = {name.encode(): name for name in settings.forwarded_headers}
        self._empty_forwarded_headers = frozenset(
            name.encode() for name in settings.empty_forwarded_headers
        )
        self._deployed_profile_headers = tuple(
            name.encode() for name in settings.deployed_profile_headers
        )
        self._deployed_profile_clients = frozenset(
            (name, value.lower()) for name, value in settings.deployed_profile_clients
        )
        self._client_keys = frozenset(name for name, _ in self._deployed_profile_clients)
        # by header: the name of the metadata, or the function that reads the value
        self._readers: dict[bytes, str | Callable[[RequestHeaders, bytes], None]] = {
            **self._forwarded_headers,
            **_OWN_READERS,
        }
        self._response_headers = {
            key: tuple(name.encode() for name in names) for key, names in settings.response_headers
        }
        # headers that carry credentials, or mark the end of the message
        self.protected_headers = frozenset(
            {*self._forwarded_headers, b"content-length", b"transfer-encoding", b"host"}
        )
        self.cors_headers: Headers = [
            (b"access-control-allow-origin", b"*"),
            (b"access-control-expose-headers", ", ".join(settings.exposed_headers).encode()),
        ]
        self._preflight_headers: Headers = [
            (b"access-control-allow-origin", b"*"),
            (b"access-control-allow-methods", b"GET, POST"),
            (b"access-control-allow-headers", ", ".join(settings.allowed_headers).encode()),
        ]

    def parse_headers(
        self, headers: Iterable[tuple[bytes, bytes]], request_headers: RequestHeaders
    ) -> None:
        """Fill `request_headers` from lower-case headers; refuse known headers sent twice."""
        metadata = request_headers.metadata
        seen: list[bytes] = []
        for name, value in headers:
            take = self._readers.get(name)
            if take is None:
                continue
            seen.append(name)
            if not isinstance(take, str):
                take(request_headers, value.strip(b" \t"))
                continue
            text = value.decode("latin-1").strip(" \t")
            # isprintable accepts letters beyond ASCII, isascii control characters
            if not (text.isascii() and text.isprintable()):
                request_headers.non_ascii_header = request_headers.non_ascii_header or take
            elif text or name in self._empty_forwarded_headers:
                metadata.append((take, text))
        if len(set(seen)) != len(seen):
            twice = next(name for name in seen if seen.count(name) > 1)
            raise RefusedError(
                400, INVALID_PARAMS, f"Header {twice.decode()} was sent more than once"
            )
        if not request_headers.request_id:
            request_headers.request_id = create_request_id()
        metadata.append(("request-id", request_headers.request_id))
        if self._is_deployed(seen, metadata):
            request_headers.profile = JsonProfile.DEPLOYED

    def _is_deployed(
        self, header_names: Sequence[bytes], metadata: Sequence[tuple[str, Any]]
    ) -> bool:
        if not self._deployed_profile_headers:
            return False
        deployed, newer = self._deployed_profile_headers
        if deployed in header_names or newer in header_names:
            return newer not in header_names
        for key, value in metadata:
            if key in self._client_keys and isinstance(value, str):
                client = (key, value.lower())
                if client in self._deployed_profile_clients:
                    return True
        return False

    def check_aliases(self, aliases: Mapping[bytes, bytes]) -> None:
        """Raise ValueError unless every alias is a separate header for a forwarded header."""
        for alias, header in aliases.items():
            if alias in self._readers or not _HEADER_NAME.fullmatch(alias):
                raise ValueError(f"{alias.decode()!r} cannot be an alias")
            if header not in self._forwarded_headers or header in self._empty_forwarded_headers:
                raise ValueError(f"{header.decode()!r} cannot have an alias")

    def parse_aliases(
        self,
        headers: Iterable[tuple[bytes, bytes]],
        request_headers: RequestHeaders,
        aliases: Mapping[bytes, bytes],
    ) -> None:
        """Read aliases of headers that were not sent; refuse an alias that is sent twice."""
        sent_aliases: dict[bytes, bytes] = {}
        for name, value in headers:
            if b"_" in name and name.replace(b"_", b"-") in aliases:
                raise RefusedError(400, INVALID_PARAMS, MISSPELT_HEADER)
            if name in sent_aliases:
                raise RefusedError(
                    400, INVALID_PARAMS, f"Header {name.decode()} was sent more than once"
                )
            if name in aliases:
                sent_aliases[name] = value
        sent = {key for key, _ in request_headers.metadata}
        for alias, value in sent_aliases.items():
            key, text = (
                self._forwarded_headers[aliases[alias]],
                value.decode("latin-1").strip(" \t"),
            )
            if not (text.isascii() and text.isprintable()):
                request_headers.non_ascii_header = (
                    request_headers.non_ascii_header or alias.decode()
                )
            elif text and key not in sent:
                request_headers.metadata.append((key, text))
                sent.add(key)

    def build_response_headers(
        self, request_id: str, metadata: Metadata, *, cors: bool, length: int | None = None
    ) -> Headers:
        """Return the headers of a response: uncached JSON, unless the first two are replaced."""
        headers = [*_DEFAULT_HEADERS, (b"request-id", request_id.encode("ascii"))]
        if length is not None:
            headers.append((b"content-length", b"%d" % length))
        for key, value in metadata:
            names = self._response_headers.get(key)
            if names and isinstance(value, str) and value.isascii() and value.isprintable():
                encoded_value = value.encode("ascii")
                headers += [(name, encoded_value) for name in names]
        if cors:
            headers += self.cors_headers
        return headers

    def build_preflight_headers(self, request_id: str, max_age_s: int) -> Headers:
        """Return the headers of the response to a browser's OPTIONS."""
        return [
            *self._preflight_headers,
            (b"access-control-max-age", b"%d" % max_age_s),
            (b"cache-control", b"no-store"),
            (b"request-id", request_id.encode("ascii")),
        ]
