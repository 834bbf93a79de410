"""Templates of pages, and the answers that are made of them.

Every value is escaped and cleaned of control characters, whoever it is from; one that a template
names and nobody gave is an error.
Styles and scripts are files of this host (`assets`), and nothing else runs or is loaded.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any, Final

from florin_gateway.plain import PlainAnswer
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from florin_server.domain.text import escape_unsafe, escape_unsafe_texts
from florin_server.web.assets import address
from florin_server.web.language import LANGUAGES


def _visible(value: object) -> str:
    """Return what a template shows of a value, without characters that reorder or hide text.

    Stored text may be older than the rule that refuses them, and nodes and tokens obey none.
    """
    text = value if isinstance(value, str) else str(value)
    if text.isprintable():
        return text
    clean = escape_unsafe(text, multiline=True)
    # what replaces a character is no markup
    return Markup(clean) if isinstance(text, Markup) else clean  # noqa: S704


_FOLDER: Final = Path(__file__).with_name("templates")
_TEMPLATES: Final = Environment(
    loader=FileSystemLoader(_FOLDER),
    autoescape=True,
    # no template can forget it
    finalize=_visible,
    undefined=StrictUndefined,
    # files of an installation do not change
    auto_reload=False,
    trim_blocks=True,
    lstrip_blocks=True,
    # all of them are kept: there are few
    cache_size=-1,
)

# a page has a theme if it is asked for one
_TEMPLATES.globals.update(asset=address, languages=LANGUAGES, theme="")

Headers = tuple[tuple[bytes, bytes], ...]


class Script(Markup):
    """What a script reads, encoded once: `tojson` of a template takes it as it is."""

    __slots__ = ()

    @classmethod
    def of(cls, value: object) -> Script:
        """A value as JSON that no element of a page ends in, its texts cleaned like those shown."""
        return cls(_dumps(value))


def _tojson(value: object) -> Markup:
    return value if isinstance(value, Script) else _dumps(value)


def _dumps(value: object) -> Markup:
    return htmlsafe_json_dumps(escape_unsafe_texts(value))


_TEMPLATES.filters["tojson"] = _tojson


def html(template: str, status: int, headers: Headers, **values: Any) -> PlainAnswer:
    """A page of a template; its values are texts, never markup."""
    text = _TEMPLATES.get_template(template).render(values)
    return PlainAnswer(status, text.encode(), "text/html; charset=utf-8", headers)


def _digest(text: bytes) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"


def strict(frames: str = "'none'", style: str | None = None) -> Headers:
    """The headers of pages with scripts: all that loads is this host's, and texts become no markup.

    The referrer stays within this site: `no-referrer` would make browsers send `Origin: null`
    with its own forms. `frames` are the sites that may put the page into theirs; `style` is the
    one text that may stand in a style element.
    """
    styles = "'self'" if style is None else f"'self' {_digest(style.encode())}"
    policy = (
        f"default-src 'none'; script-src 'self'; style-src {styles}; img-src 'self' data:; "
        "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; "
        f"frame-ancestors {frames}; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return (
        (b"content-security-policy", policy.encode()),
        (b"referrer-policy", b"same-origin"),
        (b"x-content-type-options", b"nosniff"),
        (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=()"),
    )
