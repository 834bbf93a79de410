"""A merchant's color on a page, made lighter or darker until it is readable."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final, TypeAlias

from florin_server.web.colours import (
    BACKGROUNDS,
    BLACK,
    ON_ACCENT,
    TEXT_CONTRAST_MIN,
    WHITE,
    compute_contrast,
    mix_colors,
)

_Rgb: TypeAlias = tuple[int, int, int]

_STEPS: Final = 20
# the share of the accent in the background of chosen things: `--accent-soft` of `site.css`
_SOFT_SHARE: Final = 0.09
_SURFACES: Final = {"light": "#ffffff", "dark": "#16171d"}


@functools.lru_cache(256)
def build_accent_style(color: str, selector: str = ":root") -> str:
    """Return the style that gives a page, or a part, the color (`#rrggbb`) in both schemes."""
    light, dark = adjust_accent(color)
    on_light, on_dark = ON_ACCENT["light"], ON_ACCENT["dark"]
    accents = f"--accent:light-dark({light},{dark});--on-accent:light-dark({on_light},{on_dark})"
    return f"{selector}{{{accents}}}"


def adjust_accent(color: str) -> tuple[str, str]:
    """Return the color for light and for dark backgrounds, unchanged if it is readable."""
    return _mix_until_readable(color, BLACK, "light"), _mix_until_readable(color, WHITE, "dark")


def _mix_until_readable(color: str, towards: str, scheme: str) -> str:
    mixed = color
    for step in range(_STEPS + 1):
        mixed = _format_color(_mix_colors(_parse_color(color), _parse_color(towards), step))
        # links have the color too, so that it must be readable on every background
        soft = mix_colors(mixed, _SOFT_SHARE, _SURFACES[scheme])
        if _is_readable(mixed, (*BACKGROUNDS[scheme], soft)):
            break
    return mixed


def _is_readable(color: str, backgrounds: Sequence[str]) -> bool:
    return all(compute_contrast(color, ground) >= TEXT_CONTRAST_MIN for ground in backgrounds)


def _mix_colors(rgb: _Rgb, towards: _Rgb, step: int) -> _Rgb:
    red, green, blue = (
        number + (other - number) * step // _STEPS
        for number, other in zip(rgb, towards, strict=True)
    )
    return red, green, blue


def _parse_color(color: str) -> _Rgb:
    red, green, blue = bytes.fromhex(color.removeprefix("#"))
    return red, green, blue


def _format_color(rgb: _Rgb) -> str:
    return "#" + bytes(rgb).hex()
