"""The landing page, and error pages for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.plain import PlainRequest, PlainResponse

from florin_server.web.error_pages import render_error_page
from florin_server.web.language import get_translations, negotiate_language
from florin_server.web.render import build_security_headers, render_page

_NOUN: Final = "landing"
_HEADERS: Final = build_security_headers()
# paths of programs: people see their errors unchanged
_PROGRAMS: Final = frozenset({"v1", "versions", "spec", "healthz", "readyz", "metrics"})


@dataclass(frozen=True, slots=True)
class LandingLink:
    """A link of the landing page; `text` is its message key."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class LandingPage:
    """The content of the landing page; `live` if real money moves here."""

    # no version: it would help attackers of old releases
    name: str
    live: bool
    links: Sequence[LandingLink]


def render_landing(landing_page: LandingPage, request: PlainRequest) -> PlainResponse:
    """Return the landing page."""
    return render_page(
        "people/landing.html",
        200,
        _HEADERS,
        landing_page=landing_page,
        texts=get_translations(negotiate_language(request), _NOUN),
        here="/",
    )


def render_refusal(request: PlainRequest, path: str, error: RefusedError) -> PlainResponse | None:
    """Return the page of an error for people; None on paths of programs."""
    first = path.lstrip("/").partition("/")[0]
    return None if first in _PROGRAMS else render_error_page(request, error.status)
