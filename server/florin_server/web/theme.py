"""Colors that wallets and merchants choose for a page, as far as they are readable.

`themeVariables` is an encoded JSON object of the names below; other names and invalid values are
ignored. So is a pair of colors with less contrast than WCAG 2.2 AA requires; a color without its
counterpart gets black or white. The style contains no text of theirs but colors and lengths.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Final

from grpc_rest_gateway.plain import PlainRequest

from florin_server.domain.page_queries import decode_json_object
from florin_server.web.colours import (
    BACKGROUNDS,
    GRAPHIC_CONTRAST_MIN,
    TEXT_CONTRAST_MIN,
    WHITE,
    compute_contrast,
    pick_text_color,
)

# the query parameters that choose light or dark colors, and single colors
PARAMETER: Final = "theme"
VARIABLES_PARAMETER: Final = "themeVariables"
_THEMES: Final = frozenset({"light", "dark"})
# twice the length of all names and values
VARIABLES_CHARS_MAX: Final = 1024
_COLOR = re.compile(r"#(?:[0-9a-f]{3}|[0-9a-f]{6})", re.ASCII | re.IGNORECASE)
_LENGTH = re.compile(r"(?:[0-9]|[1-5][0-9]|6[0-4])px", re.ASCII)
_PATTERNS: Final = {
    **dict.fromkeys(("background", "text", "accent", "accentText", "border"), _COLOR),
    "radius": _LENGTH,
}
# the variables of backgrounds; a chosen background replaces all of them
_GROUNDS: Final = (
    *("ground", "sunken", "surface", "raised"),
    *("good-soft", "bad-soft", "warn-soft", "info-soft", "plain-soft", "accent-soft"),
)
_MESSAGES: Final = {
    "light": {"good": "#0b6840", "bad": "#b01f2a", "warn": "#855000", "info": "#2b50b8"},
    "dark": {"good": "#66d7a0", "bad": "#ff9a9a", "warn": "#f0bb60", "info": "#9bb8ff"},
}


def get_theme(request: PlainRequest) -> str:
    """Return the theme in a query: light, dark, or empty for the reader's preference."""
    return normalize_theme(request.get_parameter(PARAMETER))


def normalize_theme(theme: str) -> str:
    """Return a theme if it is known, else an empty text."""
    return theme if theme in _THEMES else ""


@functools.lru_cache(256)
def build_style(variables: str, theme: str = "") -> str:
    """Return a CSS rule for the chosen variables, empty if none is usable.

    `theme` is light, dark, or empty for the reader's preference.
    """
    chosen = _parse_variables(variables)
    set_: dict[str, str] = {}
    text, background = chosen.get("text"), chosen.get("background")
    if background is not None:
        text = text or pick_text_color(background)
        if compute_contrast(text, background) < TEXT_CONTRAST_MIN:
            text = background = None
    grounds = _get_backgrounds(theme) if background is None else (background,)
    if text is not None and all(
        compute_contrast(text, ground) >= TEXT_CONTRAST_MIN for ground in grounds
    ):
        set_ |= dict.fromkeys(("text", "quiet", "faint", "plain"), text)
    if background is not None and text is not None:
        set_ |= {
            **dict.fromkeys(_GROUNDS, background),
            **_build_message_colors(background, text),
        }
    set_ |= _build_accents(chosen, grounds, text if background else None)
    border = chosen.get("border")
    if border is not None:
        set_["line"] = border
        if _is_visible(border, grounds):
            set_["edge"] = border
    if (radius := chosen.get("radius")) is not None:
        set_ |= dict.fromkeys(("radius", "radius-l", "radius-xl"), radius)
    if not set_:
        return ""
    scheme = f"color-scheme:{_get_scheme(background)};" if background is not None else ""
    rules = "".join(f"--{name}:{value};" for name, value in set_.items())
    return f":root:root{{{scheme}{rules}}}"


def _parse_variables(variables: str) -> Mapping[str, str]:
    json_object = decode_json_object(variables, VARIABLES_CHARS_MAX)
    return {
        name: value.lower()
        for name, pattern in _PATTERNS.items()
        if isinstance(value := json_object.get(name), str) and pattern.fullmatch(value)
    }


def _build_accents(
    chosen: Mapping[str, str], backgrounds: tuple[str, ...], text: str | None
) -> Mapping[str, str]:
    """Return the colors of buttons and links; `text` replaces an unreadable link color."""
    accent = chosen.get("accent")
    written = chosen.get("accentText") or (pick_text_color(accent) if accent else "")
    if accent is None or compute_contrast(written, accent) < TEXT_CONTRAST_MIN:
        # the default colors can be unreadable on the chosen background
        return {} if text is None else {"accent": text, "on-accent": backgrounds[0], "link": text}
    accents = {"accent": accent, "on-accent": written}
    if all(compute_contrast(accent, ground) >= TEXT_CONTRAST_MIN for ground in backgrounds):
        return {**accents, "link": accent}
    return {**accents, "link": text} if text is not None else accents


def _build_message_colors(background: str, text: str) -> Mapping[str, str]:
    """Return the colors of messages on a background: the default ones if readable."""
    usual = _MESSAGES[_get_scheme(background)]
    read = {
        name: colour if compute_contrast(colour, background) >= TEXT_CONTRAST_MIN else text
        for name, colour in usual.items()
    }
    return {**read, "edge": text}


def _get_backgrounds(theme: str) -> tuple[str, ...]:
    return BACKGROUNDS.get(theme) or (*BACKGROUNDS["light"], *BACKGROUNDS["dark"])


def _is_visible(color: str, backgrounds: tuple[str, ...]) -> bool:
    return all(compute_contrast(color, ground) >= GRAPHIC_CONTRAST_MIN for ground in backgrounds)


def _get_scheme(background: str) -> str:
    return "dark" if pick_text_color(background) == WHITE else "light"
