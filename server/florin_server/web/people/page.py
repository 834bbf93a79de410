"""What runs here and where to go, and why there is nothing else to see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from florin_gateway.errors import RefusedError
from florin_gateway.plain import PlainAnswer, PlainRequest

from florin_server.web.language import spoken, words
from florin_server.web.notice import notice
from florin_server.web.render import html, strict

_NOUN: Final = "people"
_HEADERS: Final = strict()
# what begins like this is asked by programs, or by people who want to see what those get
_PROGRAMS: Final = frozenset({"v1", "versions", "spec", "healthz", "readyz", "metrics"})


@dataclass(frozen=True, slots=True)
class Link:
    """Where people may go on; `text` is the name of its text."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Landing:
    """What the first page tells; `live` if real money moves here."""

    # no version: whoever attacks old ones need not be told
    name: str
    live: bool
    links: Sequence[Link]


def landing(told: Landing, request: PlainRequest) -> PlainAnswer:
    """The page of an address that names no payment."""
    return html(
        "people/landing.html",
        200,
        _HEADERS,
        told=told,
        words=words(spoken(request), _NOUN),
        here="/",
    )


def refusal(request: PlainRequest, path: str, refused: RefusedError) -> PlainAnswer | None:
    """The page that tells a refusal to people; None where programs ask."""
    first = path.lstrip("/").partition("/")[0]
    return None if first in _PROGRAMS else notice(request, refused.status)
