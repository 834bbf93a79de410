"""Which colours can be read on which, by WCAG 2.2; colours are `#rrggbb`, or `#rgb`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# what is read (1.4.3), and what only has to be seen (1.4.11)
READABLE: Final = 4.5
VISIBLE: Final = 3.0
BLACK, WHITE = "#000000", "#ffffff"
# what is behind texts where nobody chooses it, as in `site.css`: the darker, then the lighter one
GROUNDS: Final[Mapping[str, tuple[str, ...]]] = {
    "light": ("#f6f7f9", "#ffffff"),
    "dark": ("#111418", "#1b2027"),
}


def contrast(one: str, other: str) -> float:
    """How well one colour is told from another: 1 for equal ones, 21 for black and white."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def beside(colour: str) -> str:
    """Black or white, whichever is read better on a colour: one of them always is."""
    return max(BLACK, WHITE, key=lambda one: contrast(one, colour))


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    red, green, blue = (_linear(int(digits[at : at + 2], 16) / 255) for at in (0, 2, 4))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
