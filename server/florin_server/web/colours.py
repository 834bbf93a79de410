"""Contrast of colors by WCAG 2.2; colors are `#rrggbb`, or `#rgb`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# of text (1.4.3), and of graphics (1.4.11)
TEXT_CONTRAST_MIN: Final = 4.5
GRAPHIC_CONTRAST_MIN: Final = 3.0
BLACK, WHITE = "#000000", "#ffffff"
# the default backgrounds of texts, as in `site.css`: ground, sunken, surface and raised
BACKGROUNDS: Final[Mapping[str, tuple[str, ...]]] = {
    "light": ("#f6f6f8", "#f0f0f3", "#ffffff"),
    "dark": ("#0d0e12", "#101116", "#16171d", "#1d1f27"),
}
# the default text on an accent: readable on every accent that is readable on the backgrounds
ON_ACCENT: Final[Mapping[str, str]] = {"light": "#ffffff", "dark": "#0d0f1f"}


def compute_contrast(first: str, second: str) -> float:
    """Return the contrast of two colors: 1 for equal ones, 21 for black and white."""
    darker, lighter = sorted((_compute_luminance(first), _compute_luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def pick_text_color(color: str) -> str:
    """Return black or white, whichever has more contrast on a color; one is always readable."""
    return max(BLACK, WHITE, key=lambda text: compute_contrast(text, color))


def mix_colors(color: str, share: float, other: str) -> str:
    """Return `share` of a color and the rest of another one, like `color-mix(in oklab, …)`."""
    mixed = [
        part * share + rest * (1 - share)
        for part, rest in zip(_to_oklab(color), _to_oklab(other), strict=True)
    ]
    return _from_oklab(*mixed)


def _to_oklab(color: str) -> tuple[float, ...]:
    """Return lightness and the two axes of color by the definition of Oklab (CSS Color 4)."""
    red, green, blue = _parse_channels(color)
    cones = (
        0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue,
        0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue,
        0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue,
    )
    long, medium, short = (cone ** (1 / 3) for cone in cones)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def _from_oklab(lightness: float, a_axis: float, b_axis: float) -> str:
    long = (lightness + 0.3963377774 * a_axis + 0.2158037573 * b_axis) ** 3
    medium = (lightness - 0.1055613458 * a_axis - 0.0638541728 * b_axis) ** 3
    short = (lightness - 0.0894841775 * a_axis - 1.2914855480 * b_axis) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    return "#" + bytes(_compress(channel) for channel in linear).hex()


def _compress(linear: float) -> int:
    """Return the byte of a linear channel; the inverse of `_linearize`."""
    bounded = min(max(linear, 0.0), 1.0)
    encoded = 12.92 * bounded if bounded <= 0.0031308 else 1.055 * bounded ** (1 / 2.4) - 0.055
    return round(encoded * 255)


def _compute_luminance(color: str) -> float:
    red, green, blue = _parse_channels(color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _parse_channels(color: str) -> tuple[float, ...]:
    """Return red, green and blue, linear and from 0 to 1."""
    digits = color[1:] if len(color) == 7 else "".join(digit * 2 for digit in color[1:])
    return tuple(_linearize(int(digits[at : at + 2], 16) / 255) for at in (0, 2, 4))


def _linearize(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
