"""A merchant's colour on a page, as light or as dark as it has to be to be read."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final, TypeAlias

from florin_server.web.colours import BLACK, GROUNDS, READABLE, WHITE, beside, contrast

_Rgb: TypeAlias = tuple[int, int, int]

_STEPS: Final = 20


@functools.lru_cache(256)
def style(colour: str) -> str:
    """The style that gives a page the colour (`#rrggbb`) in both schemes."""
    light, dark = readable(colour)
    on_light, on_dark = beside(light), beside(dark)
    return (
        f":root{{--accent:light-dark({light},{dark});--on-accent:light-dark({on_light},{on_dark})}}"
    )


def readable(colour: str) -> tuple[str, str]:
    """The colour as it is used on light and on dark grounds: itself, if it has contrast enough."""
    return _until(colour, BLACK, GROUNDS["light"]), _until(colour, WHITE, GROUNDS["dark"])


def _until(colour: str, towards: str, grounds: Sequence[str]) -> str:
    mixed = colour
    for step in range(_STEPS + 1):
        mixed = _written(_mixed(_read(colour), _read(towards), step))
        # links have the colour too, so that it is read everywhere
        if all(contrast(mixed, ground) >= READABLE for ground in grounds):
            break
    return mixed


def _mixed(rgb: _Rgb, towards: _Rgb, step: int) -> _Rgb:
    red, green, blue = (
        one + (other - one) * step // _STEPS for one, other in zip(rgb, towards, strict=True)
    )
    return red, green, blue


def _read(colour: str) -> _Rgb:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue


def _written(rgb: _Rgb) -> str:
    return "#" + bytes(rgb).hex()
