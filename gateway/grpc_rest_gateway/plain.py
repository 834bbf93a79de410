"""Plain routes, which call no RPC: health, published versions, pages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import orjson

from grpc_rest_gateway.errors import INVALID_PARAMS, RefusedError
from grpc_rest_gateway.headers import Headers, parse_event_id
from grpc_rest_gateway.httprule import PathTemplate
from grpc_rest_gateway.rpc import MessageStream, Metadata


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """The request of a plain route; the body is empty for GET, the path is undecoded."""

    method: str
    variables: Mapping[str, str]
    query: Sequence[tuple[str, str]]
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    peer: str
    scheme: str
    path: str = ""

    def reject_nul(self) -> None:
        """Raise RefusedError if the path or the query contains U+0000."""
        if any("\0" in text for text in (*self.variables.values(), *chain(*self.query))):
            raise RefusedError(400, INVALID_PARAMS, "The URL contains the character U+0000")

    def list_header_values(self, name: bytes) -> list[bytes]:
        """Return the values of a header, named in lower case; clients can repeat it."""
        return [value for key, value in self.headers if key == name]

    def get_header(self, name: bytes) -> str:
        """Return the first value of a header, named in lower case; empty without one."""
        values = self.list_header_values(name)
        return values[0].decode("latin-1") if values else ""

    def get_parameter(self, name: str) -> str:
        """Return the first value of a query parameter; empty without one."""
        return next((value for key, value in self.query if key == name), "")

    def parse_last_event_id(self) -> int | None:
        """Return the last event that a stream's client received.

        Raise RefusedError if it is not a number.
        """
        sent = self.list_header_values(b"last-event-id")
        return parse_event_id(text) if sent and (text := sent[0].strip(b" \t")) else None


@dataclass(frozen=True, slots=True)
class PlainResponse:
    """The response of a plain route.

    Caches store nothing of it unless `cache_control` permits it.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Sequence[tuple[bytes, bytes]] = field(default_factory=tuple)
    cache_control: bytes = b"no-store"

    @classmethod
    def from_json(cls, value: Any, status: int = 200) -> PlainResponse:
        """Return a JSON response."""
        return cls(status, orjson.dumps(value))


class PlainEvent(NamedTuple):
    """One event: its id, and a JSON text."""

    version: int
    body: bytes


@dataclass(frozen=True, slots=True)
class PlainEvents:
    """A stream of events as the response of a plain route; `release` is called at its end."""

    events: AsyncGenerator[PlainEvent]
    release: Callable[[], None]

    def to_message_stream(self) -> MessageStream:
        """Return the events in the form of a backend's stream."""
        return _PlainMessageStream(self.events)


class _PlainMessageStream:
    """Events of this process; they have no metadata."""

    def __init__(self, events: AsyncGenerator[PlainEvent]) -> None:
        self._events = events

    def __aiter__(self) -> MessageStream:
        return self

    async def __anext__(self) -> Any:
        return await anext(self._events)

    async def metadata(self) -> Metadata:
        return ()

    async def close(self) -> None:
        await self._events.aclose()


PlainHandler = Callable[[PlainRequest], Awaitable[PlainResponse | PlainEvents]]
# renders an error at a path as a page; None: answer as for programs
RefusalRenderer = Callable[[PlainRequest, str, RefusedError], PlainResponse | None]


def is_page_request(method: str, headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Return True for a person in a browser: programs that accept anything want JSON."""
    reads = method in {"GET", "HEAD"}
    return reads and any(name == b"accept" and b"text/html" in value for name, value in headers)


@dataclass(frozen=True, slots=True)
class PlainRoute:
    """A plain route in the router."""

    template: PathTemplate
    handler: PlainHandler
    cors: bool
    headers: Headers = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the name for all its requests: its path template."""
        return self.template.text
