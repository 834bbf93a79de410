"""Headers in and out: a fixed list becomes metadata, a fixed list of metadata becomes headers."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from florin_gateway.errors import (
    HEADER_NOT_ASCII,
    INVALID_PARAMS,
    RefusedError,
    invalid_parameter,
)
from florin_gateway.profiles import Profile
from florin_gateway.rpc import Metadata
from florin_gateway.settings import HeaderSettings

Headers = list[tuple[bytes, bytes]]

_HEADER_NAME = re.compile(rb"[a-z0-9]+(?:-[a-z0-9]+)*")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_TIMEOUT = re.compile(rb"(\d{1,8})([HMSmun])")
_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}

# asking the system for each id would let other threads in on every request
_PROCESS = os.urandom(8).hex()
_COUNTER = itertools.count()

_ALWAYS: Headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]

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


_OWN_READERS: dict[bytes, Callable[[Incoming, bytes], None]] = {
    b"request-id": _request_id,
    b"content-type": _content_type,
    b"content-length": _content_length,
    b"content-encoding": _content_encoding,
    b"last-event-id": _last_event_id,
    b"grpc-timeout": _timeout,
}


class HeaderRules:
    """Which headers the gateway takes in and gives out for the services behind it."""

    def __init__(self, settings: HeaderSettings) -> None:
        self._forwarded = {name.encode(): name for name in settings.forwarded}
        self._kept_empty = frozenset(name.encode() for name in settings.kept_empty)
        self._deployed = tuple(name.encode() for name in settings.deployed)
        self._deployed_clients = frozenset(
            (name, value.lower()) for name, value in settings.deployed_clients
        )
        # by header: the name of the metadata, or what takes the value in
        self._readers: dict[bytes, str | Callable[[Incoming, bytes], None]] = {
            **self._forwarded,
            **_OWN_READERS,
        }
        self._answered = {
            key: tuple(name.encode() for name in names) for key, names in settings.answered
        }
        # headers that say who calls, or where the message ends
        self.delicate = frozenset(
            {*self._forwarded, b"content-length", b"transfer-encoding", b"host"}
        )
        self.cors: Headers = [
            (b"access-control-allow-origin", b"*"),
            (b"access-control-expose-headers", ", ".join(settings.exposed).encode()),
        ]
        self._preflight: Headers = [
            (b"access-control-allow-origin", b"*"),
            (b"access-control-allow-methods", b"GET, POST"),
            (b"access-control-allow-headers", ", ".join(settings.allowed).encode()),
        ]

    def read(self, headers: Iterable[tuple[bytes, bytes]], incoming: Incoming) -> None:
        """Fill `incoming` from lower-case headers; a known one that comes twice is refused."""
        metadata = incoming.metadata
        seen: list[bytes] = []
        for name, value in headers:
            take = self._readers.get(name)
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
            elif text or name in self._kept_empty:
                metadata.append((take, text))
        if len(set(seen)) != len(seen):
            twice = next(name for name in seen if seen.count(name) > 1)
            raise RefusedError(
                400, INVALID_PARAMS, f"Header {twice.decode()} was sent more than once"
            )
        if not incoming.request_id:
            incoming.request_id = new_request_id()
        metadata.append(("request-id", incoming.request_id))
        if self._is_deployed(seen, metadata):
            incoming.profile = Profile.DEPLOYED

    def _is_deployed(self, seen: Sequence[bytes], metadata: Sequence[tuple[str, Any]]) -> bool:
        if not self._deployed:
            return False
        if not any(name in seen for name in self._deployed):
            return any(
                (name, value.lower()) in self._deployed_clients
                for name, value in metadata
                if isinstance(value, str)
            )
        return self._deployed[0] in seen and self._deployed[1] not in seen

    def check_aliases(self, aliases: Mapping[bytes, bytes]) -> None:
        """ValueError unless every alias is a header of its own that stands for a forwarded one."""
        for alias, header in aliases.items():
            if alias in self._readers or not _HEADER_NAME.fullmatch(alias):
                raise ValueError(f"{alias.decode()!r} cannot be an alias")
            if header not in self._forwarded or header in self._kept_empty:
                raise ValueError(f"{header.decode()!r} cannot have an alias")

    def read_aliases(
        self,
        headers: Iterable[tuple[bytes, bytes]],
        incoming: Incoming,
        aliases: Mapping[bytes, bytes],
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
            key, text = self._forwarded[aliases[alias]], value.decode("latin-1").strip(" \t")
            if not (text.isascii() and text.isprintable()):
                incoming.not_ascii = incoming.not_ascii or alias.decode()
            elif text and key not in sent:
                incoming.metadata.append((key, text))
                sent.add(key)

    def answer(
        self, request_id: str, metadata: Metadata, *, cors: bool, length: int | None = None
    ) -> Headers:
        """Headers of an answer: JSON that nobody keeps, unless the first two are replaced."""
        headers = [*_ALWAYS, (b"request-id", request_id.encode("ascii"))]
        if length is not None:
            headers.append((b"content-length", b"%d" % length))
        for key, value in metadata:
            names = self._answered.get(key)
            if names and isinstance(value, str) and value.isascii() and value.isprintable():
                told = value.encode("ascii")
                headers += [(name, told) for name in names]
        if cors:
            headers += self.cors
        return headers

    def preflight(self, request_id: str, max_age_s: int) -> Headers:
        """Headers of the answer to a browser's OPTIONS."""
        return [
            *self._preflight,
            (b"access-control-max-age", b"%d" % max_age_s),
            (b"cache-control", b"no-store"),
            (b"request-id", request_id.encode("ascii")),
        ]
