"""Colours that wallets and merchants choose for a page, as far as everybody can read them.

`themeVariables` is an encoded JSON object of the names below; whatever else is in it, or is no such
value, is left out. A pair of colours with less contrast than WCAG 2.2 AA asks for is left out too;
one of a pair that comes alone gets black or white beside it. What is made of it holds no text of
theirs but colours and lengths.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Final

from florin_server.domain.encoded import json_object
from florin_server.web.colours import GROUNDS, READABLE, VISIBLE, WHITE, beside, contrast

# what a page is asked for in light or dark colours with, whatever its reader prefers
PARAMETER: Final = "theme"
_THEMES: Final = frozenset({"light", "dark"})
# all names and values fit twice
VARIABLES_CHARS_MAX: Final = 1024
_COLOUR = re.compile(r"#(?:[0-9a-f]{3}|[0-9a-f]{6})", re.ASCII | re.IGNORECASE)
_LENGTH = re.compile(r"(?:[0-9]|[1-5][0-9]|6[0-4])px", re.ASCII)
_PATTERNS: Final = {
    **dict.fromkeys(("background", "text", "accent", "accentText", "border"), _COLOUR),
    "radius": _LENGTH,
}
_MESSAGES: Final = {
    "light": {"good": "#11663a", "bad": "#a3161f", "warn": "#7a4b00"},
    "dark": {"good": "#6fd6a0", "bad": "#ff9c9c", "warn": "#f2c063"},
}


def asked(query: Iterable[tuple[str, str]]) -> str:
    """The theme that an address asks for: light, dark, or empty for what the reader prefers."""
    return named(next((value for name, value in query if name == PARAMETER), ""))


def named(theme: str) -> str:
    """The same of a text."""
    return theme if theme in _THEMES else ""


@functools.lru_cache(256)
def style(variables: str, theme: str = "") -> str:
    """A rule of CSS for what was chosen, empty if nothing of it is of use.

    `theme` is light, dark, or empty for what the reader prefers.
    """
    chosen = _allowed(variables)
    set_: dict[str, str] = {}
    text, background = chosen.get("text"), chosen.get("background")
    if background is not None:
        text = text or beside(background)
        if contrast(text, background) < READABLE:
            text = background = None
    grounds = _grounds(theme) if background is None else (background,)
    if text is not None and all(contrast(text, one) >= READABLE for one in grounds):
        set_ |= {"text": text, "quiet": text}
    if background is not None and text is not None:
        set_ |= {"ground": background, "surface": background, **_messages(background, text)}
    set_ |= _accents(chosen, grounds, text if background else None)
    border = chosen.get("border")
    if border is not None:
        set_["line"] = border
        if _seen(border, grounds):
            set_["edge"] = border
    if (radius := chosen.get("radius")) is not None:
        set_ |= {"radius": radius, "control-radius": radius}
    if not set_:
        return ""
    scheme = f"color-scheme:{_scheme(background)};" if background is not None else ""
    rules = "".join(f"--{name}:{value};" for name, value in set_.items())
    return f":root:root{{{scheme}{rules}}}"


def _allowed(variables: str) -> Mapping[str, str]:
    given = json_object(variables, VARIABLES_CHARS_MAX)
    return {
        name: value.lower()
        for name, pattern in _PATTERNS.items()
        if isinstance(value := given.get(name), str) and pattern.fullmatch(value)
    }


def _accents(
    chosen: Mapping[str, str], grounds: tuple[str, ...], text: str | None
) -> Mapping[str, str]:
    """The colours of what is pressed and of links; `text` stands in where a link is not read."""
    accent = chosen.get("accent")
    written = chosen.get("accentText") or (beside(accent) if accent else "")
    if accent is None or contrast(written, accent) < READABLE:
        # the usual ones may be unreadable on a background that was chosen
        return {} if text is None else {"accent": text, "on-accent": grounds[0], "link": text}
    found = {"accent": accent, "on-accent": written}
    if all(contrast(accent, one) >= READABLE for one in grounds):
        return {**found, "link": accent}
    return {**found, "link": text} if text is not None else found


def _messages(background: str, text: str) -> Mapping[str, str]:
    """Colours of good and bad news on a background: the usual ones as long as they are read."""
    usual = _MESSAGES[_scheme(background)]
    read = {
        name: colour if contrast(colour, background) >= READABLE else text
        for name, colour in usual.items()
    }
    return {**read, "edge": text}


def _grounds(theme: str) -> tuple[str, ...]:
    return GROUNDS.get(theme) or (*GROUNDS["light"], *GROUNDS["dark"])


def _seen(colour: str, grounds: tuple[str, ...]) -> bool:
    return all(contrast(colour, one) >= VISIBLE for one in grounds)


def _scheme(background: str) -> str:
    return "dark" if beside(background) == WHITE else "light"
