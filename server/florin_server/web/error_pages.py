"""Error pages, the same for all addresses."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Final

from grpc_rest_gateway.plain import PlainRequest, PlainResponse

from florin_server.web.language import PARAMETER, get_translations, negotiate_language
from florin_server.web.render import build_security_headers, render_page

NOUN: Final = "error"
_HEADERS: Final = (*build_security_headers(), (b"vary", b"accept-language"))
_TEXTS: Final = {404: "missing", 429: "too_many"}
# icons by text; other errors have the last one
_SIGNS: Final = {"missing": "search", "unknown": "search", "too_many": "clock"}
_SIGN_OF_ERRORS: Final = "alert"


def render_error_page(request: PlainRequest, status: int) -> PlainResponse:
    """Return the page of an error, by its HTTP status."""
    key = _TEXTS.get(status, "broken" if status >= 500 else "unreadable")
    return _render_page(request, status, key)


def render_rate_limit_page(request: PlainRequest, wait_s: int) -> PlainResponse:
    """Return the page of a rate limit; the address can try again after `wait_s` seconds."""
    return add_retry_after(render_error_page(request, 429), wait_s)


def add_retry_after(answer: PlainResponse, wait_s: int) -> PlainResponse:
    """Return an answer with a `Retry-After` header."""
    return replace(answer, headers=(*answer.headers, (b"retry-after", b"%d" % wait_s)))


def render_unknown_payment_page(request: PlainRequest) -> PlainResponse:
    """Return the page of a link without a payment."""
    return _render_page(request, 404, "unknown")


def _render_page(request: PlainRequest, status: int, key: str) -> PlainResponse:
    # links to other languages keep the path only: a page with a query has none
    bare = all(name == PARAMETER for name, _ in request.query)
    return _render_cached_page(negotiate_language(request), status, key, bare=bare)


# unknown addresses count in no rate limit, so their pages must cost next to nothing; the cache has
# one page per language and status
@functools.cache
def _render_cached_page(language: str, status: int, key: str, *, bare: bool) -> PlainResponse:
    translations = get_translations(language, NOUN)
    sign = _SIGNS.get(key, _SIGN_OF_ERRORS)
    return render_page(
        "notice.html", status, _HEADERS, key=key, sign=sign, texts=translations, here="", bare=bare
    )
