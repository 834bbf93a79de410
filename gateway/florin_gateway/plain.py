"""Routes that are no RPCs: health, published versions, pages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import orjson

from florin_gateway.errors import INVALID_PARAMS, RefusedError
from florin_gateway.headers import Headers, event_id
from florin_gateway.httprule import Template
from florin_gateway.rpc import Messages, Metadata


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """What a plain route sees of a request; the body is empty for GET, the path undecoded."""

    method: str
    variables: Mapping[str, str]
    query: Sequence[tuple[str, str]]
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    peer: str
    scheme: str
    path: str = ""

    def refuse_nul(self) -> None:
        """Raise RefusedError if the path or the query holds U+0000, which no text does."""
        if any("\0" in text for text in (*self.variables.values(), *chain(*self.query))):
            raise RefusedError(400, INVALID_PARAMS, "An address has no NUL character")

    def header(self, name: bytes) -> str:
        """Return the value of a header, named in lower case; empty without one."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")

    def last_event_id(self) -> int | None:
        """What a stream's client has seen already; RefusedError if it is no number."""
        sent = next((value for name, value in self.headers if name == b"last-event-id"), b"")
        return event_id(text) if (text := sent.strip(b" \t")) else None


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """What a plain route answers; caches keep nothing of it unless `cache_control` lets them."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Sequence[tuple[bytes, bytes]] = field(default_factory=tuple)
    cache_control: bytes = b"no-store"

    @classmethod
    def json(cls, value: Any, status: int = 200) -> PlainAnswer:
        """A JSON answer."""
        return cls(status, orjson.dumps(value))


class PlainEvent(NamedTuple):
    """One event: its id, and a JSON text."""

    version: int
    body: bytes


@dataclass(frozen=True, slots=True)
class PlainEvents:
    """Events that a plain route answers with, as they come; `release` is called at the end."""

    events: AsyncGenerator[PlainEvent]
    release: Callable[[], None]

    def messages(self) -> Messages:
        """The same, as the streams of a back end."""
        return _Events(self.events)


class _Events:
    """Events of this process: nothing is said besides them."""

    def __init__(self, events: AsyncGenerator[PlainEvent]) -> None:
        self._events = events

    def __aiter__(self) -> Messages:
        return self

    async def __anext__(self) -> Any:
        return await anext(self._events)

    async def metadata(self) -> Metadata:
        return ()

    async def close(self) -> None:
        await self._events.aclose()


PlainHandler = Callable[[PlainRequest], Awaitable[PlainAnswer | PlainEvents]]
# what a request is refused with at a path, as a page; None: as programs are told it
Refusals = Callable[[PlainRequest, str, RefusedError], PlainAnswer | None]


def wants_page(method: str, headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """True for a person in a browser: programs that take anything want JSON."""
    reads = method in {"GET", "HEAD"}
    return reads and any(name == b"accept" and b"text/html" in value for name, value in headers)


@dataclass(frozen=True, slots=True)
class PlainRoute:
    """A plain route as the router keeps it."""

    template: Template
    handler: PlainHandler
    cors: bool
    headers: Headers = field(default_factory=list)

    @property
    def name(self) -> str:
        """What stands for all requests to it: its path, variables unresolved."""
        return self.template.text
