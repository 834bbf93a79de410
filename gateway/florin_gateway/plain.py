"""Routes that are no RPCs: health, published versions, pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from florin_gateway.headers import Headers
from florin_gateway.httprule import Template


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """What a plain route sees of a request; the body is empty for GET."""

    method: str
    variables: Mapping[str, str]
    query: Sequence[tuple[str, str]]
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    peer: str


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """What a plain route answers."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Sequence[tuple[bytes, bytes]] = field(default_factory=tuple)

    @classmethod
    def json(cls, value: Any, status: int = 200) -> PlainAnswer:
        """A JSON answer."""
        return cls(status, orjson.dumps(value))


PlainHandler = Callable[[PlainRequest], Awaitable[PlainAnswer]]


@dataclass(frozen=True, slots=True)
class PlainRoute:
    """A plain route as the router keeps it."""

    template: Template
    handler: PlainHandler
    cors: bool
    headers: Headers = field(default_factory=list)
