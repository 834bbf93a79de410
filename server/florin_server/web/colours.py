"""Contrast of colors by WCAG 2.2; colors are `#rrggbb`, or `#rgb`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# of text (1.4.3), and of graphics (1.4.11)
TEXT_CONTRAST_MIN: Final = 4.5
GRAPHIC_CONTRAST_MIN: Final = 3.0
BLACK, WHITE = "#000000", "#ffffff"
# the default backgrounds of texts, as in `site.css`: the darker, then the lighter
BACKGROUNDS: Final[Mapping[str, tuple[str, ...]]] = {
    "light": ("#f6f7f9", "#ffffff"),
    "dark": ("#111418", "#1b2027"),
}


def compute_contrast(first: str, second: str) -> float:
    """Return the contrast of two colors: 1 for equal ones, 21 for black and white."""
    darker, lighter = sorted((_compute_luminance(first), _compute_luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def pick_text_color(color: str) -> str:
    """Return black or white, whichever has more contrast on a color; one is always readable."""
    return max(BLACK, WHITE, key=lambda text: compute_contrast(text, color))


def _compute_luminance(color: str) -> float:
    digits = color[1:] if len(color) == 7 else "".join(digit * 2 for digit in color[1:])
    red, green, blue = (_linearize(int(digits[at : at + 2], 16) / 255) for at in (0, 2, 4))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linearize(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
