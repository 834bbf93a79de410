"""A merchant's colour on a page, as light or as dark as it has to be to be read."""

from __future__ import annotations

import functools
from typing import Final, TypeAlias

_Rgb: TypeAlias = tuple[int, int, int]

# WCAG 2.2 AA for text; links have the colour too
_CONTRAST: Final = 4.5
# grounds of the site's style, the lighter and the darker of each scheme
_LIGHT: Final[tuple[_Rgb, ...]] = ((0xF6, 0xF7, 0xF9), (0xFF, 0xFF, 0xFF))
_DARK: Final[tuple[_Rgb, ...]] = ((0x11, 0x14, 0x18), (0x1B, 0x20, 0x27))
_BLACK: Final[_Rgb] = (0, 0, 0)
_WHITE: Final[_Rgb] = (255, 255, 255)
_STEPS: Final = 20


@functools.lru_cache(256)
def style(colour: str) -> str:
    """The style that gives a page the colour (`#rrggbb`) in both schemes."""
    light, dark = readable(colour)
    on_light, on_dark = _on(light), _on(dark)
    return (
        f":root{{--accent:light-dark({light},{dark});--on-accent:light-dark({on_light},{on_dark})}}"
    )


def readable(colour: str) -> tuple[str, str]:
    """The colour as it is used on light and on dark grounds: itself, if it has contrast enough."""
    rgb = _read(colour)
    return _until(rgb, _BLACK, _LIGHT), _until(rgb, _WHITE, _DARK)


def contrast(one: _Rgb, other: _Rgb) -> float:
    """By WCAG 2.2: 1 for equal colours, 21 for black and white."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _until(rgb: _Rgb, towards: _Rgb, grounds: tuple[_Rgb, ...]) -> str:
    mixed = rgb
    for step in range(_STEPS + 1):
        mixed = _mixed(rgb, towards, step)
        if all(contrast(mixed, ground) >= _CONTRAST for ground in grounds):
            break
    return _written(mixed)


def _mixed(rgb: _Rgb, towards: _Rgb, step: int) -> _Rgb:
    red, green, blue = (
        one + (other - one) * step // _STEPS for one, other in zip(rgb, towards, strict=True)
    )
    return red, green, blue


def _on(colour: str) -> str:
    rgb = _read(colour)
    return _written(max(_BLACK, _WHITE, key=lambda text: contrast(text, rgb)))


def _luminance(rgb: _Rgb) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (one / 255 for one in rgb)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _read(colour: str) -> _Rgb:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue


def _written(rgb: _Rgb) -> str:
    return "#" + bytes(rgb).hex()
