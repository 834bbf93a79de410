"""Templates of pages, and the answers that are made of them.

Every value is escaped and cleaned of control characters; a value that a template names and the
caller did not pass is an error. Styles and scripts are files of this host (`assets`), and nothing
else runs or is loaded.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unicodedata import east_asian_width

from grpc_rest_gateway.plain import PlainResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup, escape

from florin_server.domain.text import escape_unsafe, escape_unsafe_texts
from florin_server.web import glyphs
from florin_server.web.assets import build_data_url, get_asset_url
from florin_server.web.handlers import NOSNIFF
from florin_server.web.language import LANGUAGES, Translations, get_translations


def _clean_text(value: object) -> str:
    """Return a value without characters that reorder or hide text.

    Stored text can be older than the rule that refuses them, and nodes and tokens follow no rule.
    """
    text = value if isinstance(value, str) else str(value)
    if text.isprintable():
        return text
    clean = escape_unsafe(text, multiline=True)
    # the replacements contain no markup
    return Markup(clean) if isinstance(text, Markup) else clean  # noqa: S704


_CODE: Final = re.compile("`([^`]+)`")


def mark_code(text: str) -> Markup:
    """Return a text as markup, in which names between backticks are code."""
    # every second part was between backticks
    parts = [escape(part) for part in _CODE.split(text)]
    codes = [Markup('<code dir="ltr">{}</code>').format(part) for part in parts[1::2]]
    parts[1::2] = codes
    return Markup("").join(parts)


# letters of a small text in a drawing, in pixels
_LETTER_WIDTH: Final = 7
_WIDE_LETTERS: Final = frozenset("WF")


def _estimate_width(text: str) -> int:
    """Return about how many pixels a small text takes: drawings cannot measure it."""
    wide = sum(east_asian_width(letter) in _WIDE_LETTERS for letter in text)
    return _LETTER_WIDTH * (len(text) + wide)


_FOLDER: Final = Path(__file__).with_name("templates")
# a text without values, which is equal on all pages of a language
_FIXED_TEXT: Final = re.compile(r'\{\{ texts\.(?:say|plain)\("([\w.]+)"\) \}\}')
HttpHeaders = tuple[tuple[bytes, bytes], ...]


class _TranslatedLoader(FileSystemLoader):
    """Loads templates with the fixed texts of one language in place.

    A page has dozens of them, and each would be looked up for each reader.
    """

    def __init__(self, translations: Translations) -> None:
        super().__init__(_FOLDER)
        self._translations = translations

    def get_source(
        self, environment: Environment, template: str
    ) -> tuple[str, str, Callable[[], bool]]:
        source, path, is_current = super().get_source(environment, template)
        texts = self._translations.escaped
        return _FIXED_TEXT.sub(lambda match: texts[match[1]], source), path, is_current


def _create_environment(loader: FileSystemLoader) -> Environment:
    environment = Environment(
        loader=loader,
        autoescape=True,
        # so that no template can leave it out
        finalize=_clean_text,
        undefined=StrictUndefined,
        # the files of an installation do not change
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        # there are few templates: all of them are kept
        cache_size=-1,
    )
    # empty unless a page passes a theme
    environment.globals.update(
        asset=get_asset_url,
        favicon=build_data_url("site/icon.svg"),
        icon=glyphs.draw_icon,
        coin=glyphs.draw_coin,
        network=glyphs.draw_network,
        languages=LANGUAGES,
        theme="",
    )
    environment.filters["tojson"] = _to_json
    # the filter of a constant is computed once, as the template is loaded
    environment.filters["width"] = _estimate_width
    environment.filters["icon"] = glyphs.draw_icon
    environment.filters["mark_code"] = mark_code
    return environment


@functools.cache
def _get_environment(language: str, noun: str) -> Environment:
    return _create_environment(_TranslatedLoader(get_translations(language, noun)))


class ScriptData(Markup):
    """Encoded data for a script; `tojson` of a template does not encode it again."""

    __slots__ = ()

    @classmethod
    def encode_json(cls, value: object) -> ScriptData:
        """Return a value as JSON that is safe in a page, its texts cleaned like visible ones."""
        return cls(_encode_json(value))


def _to_json(value: object) -> Markup:
    return value if isinstance(value, ScriptData) else _encode_json(value)


def _encode_json(value: object) -> Markup:
    return htmlsafe_json_dumps(escape_unsafe_texts(value), dumps=_dump_json)


def _dump_json(value: object, **_options: object) -> str:
    # letters of other scripts have three times as many bytes when they are escaped
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# pages without translated texts, such as those of consoles
_TEMPLATES: Final = _create_environment(FileSystemLoader(_FOLDER))


def render_page(template: str, status: int, headers: HttpHeaders, **values: Any) -> PlainResponse:
    """Return a page from a template; its values are texts, never markup."""
    texts = values.get("texts")
    environment = (
        _get_environment(texts.language, texts.noun)
        if isinstance(texts, Translations)
        else _TEMPLATES
    )
    text = environment.get_template(template).render(values)
    return PlainResponse(status, text.encode(), "text/html; charset=utf-8", headers)


def _hash_source(text: bytes) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"


def allow_style(response: PlainResponse, style: str) -> PlainResponse:
    """Return a page whose security headers also allow the text of one style element."""
    own = b"style-src 'self'"
    wider = f"{own.decode()} {_hash_source(style.encode())}".encode()
    headers = tuple((name, value.replace(own, wider)) for name, value in response.headers)
    return replace(response, headers=headers)


def build_security_headers(
    frame_ancestors: str = "'none'", style: str | None = None
) -> HttpHeaders:
    """Return the security headers of pages: only this host's files load, and no text is markup.

    The referrer stays within this site: `no-referrer` would make browsers send `Origin: null`
    with its own forms. `frame_ancestors` are the sites that can embed the page; `style` is the
    only text allowed in a style element.
    """
    styles = "'self'" if style is None else f"'self' {_hash_source(style.encode())}"
    policy = (
        f"default-src 'none'; script-src 'self'; style-src {styles}; img-src 'self' data:; "
        "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; "
        f"frame-ancestors {frame_ancestors}; require-trusted-types-for 'script'; trusted-types "
        f"'none'"
    )
    return (
        (b"content-security-policy", policy.encode()),
        (b"referrer-policy", b"same-origin"),
        NOSNIFF,
        (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=()"),
    )
