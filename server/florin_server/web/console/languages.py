"""The language of a console's pages: the reader's choice, else what the browser prefers.

A choice is the query parameter `lang`, as on pages of buyers. The console stores it in a cookie and
redirects to the same page without it, so that lists, filters and links need not repeat it.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Final
from urllib.parse import urlencode

from grpc_rest_gateway.plain import PlainRequest, PlainResponse

from florin_server.web.console.cookies import list_cookies
from florin_server.web.console.paths import ROOT, get_request_path, redirect
from florin_server.web.console.session import HttpHeader
from florin_server.web.handlers import READ_METHODS
from florin_server.web.language import (
    LANGUAGES,
    PARAMETER,
    Translations,
    get_translations,
    negotiate_language,
)
from florin_server.web.render import ScriptData

NOUN: Final = "console"
_COOKIE: Final = "florin_language"
_COOKIE_S: Final = 365 * 86_400
# the prefix of keys of texts that scripts show
_SCRIPT_PREFIX: Final = "js."


def find_chosen_language(request: PlainRequest) -> str:
    """Return the language that the reader chose; empty without a choice."""
    chosen = (request.get_parameter(PARAMETER), *list_cookies(request, _COOKIE))
    return next((language for language in chosen if language in LANGUAGES), "")


def get_texts(request: PlainRequest) -> Translations:
    """Return the messages of the console in the language of the reader."""
    language = find_chosen_language(request) or negotiate_language(request)
    return get_translations(language, NOUN)


def build_language_cookie(language: str, *, secure: bool) -> HttpHeader:
    """Return the header that stores a choice; `secure` sends it over TLS only."""
    cookie = f"{_COOKIE}={language}; Path={ROOT}; Max-Age={_COOKIE_S}; HttpOnly; SameSite=Lax"
    return b"set-cookie", f"{cookie}{'; Secure' if secure else ''}".encode()


def switch_language(request: PlainRequest, *, secure: bool) -> PlainResponse | None:
    """Return the redirect that stores the language of a query; None if the query names none.

    Unknown languages are dropped: no text of an address enters a header or a page.
    """
    if all(name != PARAMETER for name, _ in request.query):
        return None
    language = request.get_parameter(PARAMETER)
    headers = (build_language_cookie(language, secure=secure),) if language in LANGUAGES else ()
    rest = [(name, value) for name, value in request.query if name != PARAMETER]
    return redirect(get_request_path(replace(request, query=rest)), *headers)


def list_language_values(request: PlainRequest) -> dict[str, object]:
    """Return the values of all pages that depend on the language, and those of its menu.

    The answer to a form has no address of its own, so that its page shows no menu.
    """
    texts = get_texts(request)
    return {
        "texts": texts,
        "script_texts": load_script_texts(texts.language),
        "here": request.path,
        "return_query": urlencode(list(request.query)),
        "languages_shown": request.method in READ_METHODS,
    }


@functools.cache
def load_script_texts(language: str) -> ScriptData:
    """Return the texts that scripts of the console show, by key."""
    texts = get_translations(language, NOUN).texts
    return ScriptData.encode_json(
        {
            key.removeprefix(_SCRIPT_PREFIX): text
            for key, text in texts.items()
            if key.startswith(_SCRIPT_PREFIX)
        }
    )
