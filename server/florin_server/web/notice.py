"""Pages that say why there is nothing to see, the same wherever somebody came from."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Final

from florin_gateway.plain import PlainAnswer, PlainRequest

from florin_server.web.language import PARAMETER, spoken, words
from florin_server.web.render import html, strict

NOUN: Final = "notice"
_HEADERS: Final = (*strict(), (b"vary", b"accept-language"))
_TEXTS: Final = {404: "missing", 429: "too_many"}


def notice(request: PlainRequest, status: int) -> PlainAnswer:
    """The page of a refusal, by its status."""
    key = _TEXTS.get(status, "broken" if status >= 500 else "unreadable")
    return _told(request, status, key)


def too_many(request: PlainRequest, wait_s: int) -> PlainAnswer:
    """The page for an address that asked for too many; another one comes after so many seconds."""
    return waiting(notice(request, 429), wait_s)


def waiting(answer: PlainAnswer, wait_s: int) -> PlainAnswer:
    """The same answer, told together with when to ask again."""
    return replace(answer, headers=(*answer.headers, (b"retry-after", b"%d" % wait_s)))


def no_payment(request: PlainRequest) -> PlainAnswer:
    """The page of a link that names no payment."""
    return _told(request, 404, "unknown")


def _told(request: PlainRequest, status: int, key: str) -> PlainAnswer:
    # another language is asked for by an address that holds nothing but its path
    bare = all(name == PARAMETER for name, _ in request.query)
    return _made(spoken(request), status, key, bare=bare)


# whoever asks for what is not there pays for no limit, so it must cost next to nothing; there are
# as many as languages and statuses
@functools.cache
def _made(language: str, status: int, key: str, *, bare: bool) -> PlainAnswer:
    said = words(language, NOUN)
    return html("notice.html", status, _HEADERS, key=key, words=said, here="", bare=bare)
