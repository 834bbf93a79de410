"""QR codes of payment links, drawn once each."""

from __future__ import annotations

import functools
from typing import Final

import segno
from markupsafe import Markup

# 4 kB each; making one costs as much as 20 pages
_KEPT: Final = 1024


@functools.lru_cache(_KEPT)
def code(link: str, label: str) -> Markup:
    """The code of a link as a picture in a page; `label` says what it is to who cannot see it."""
    drawn = segno.make(link, error="m", micro=False).svg_inline(
        border=2, omitsize=True, svgclass=None, lineclass=None, title=label
    )
    return Markup(drawn)  # noqa: S704  (drawn here: a link becomes modules, and the title is escaped)
