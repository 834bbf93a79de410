"""QR codes of payment links."""

from __future__ import annotations

import functools
from typing import Final

import segno
from markupsafe import Markup

# 4 kB each; drawing a code costs as much as 20 pages
_CACHE_SIZE: Final = 1024


@functools.lru_cache(_CACHE_SIZE)
def render_code(link: str, label: str) -> Markup:
    """Return the code of a link as an inline picture; `label` is its text alternative."""
    drawn = segno.make(link, error="m", micro=False).svg_inline(
        border=2, omitsize=True, svgclass=None, lineclass=None, title=label
    )
    return Markup(drawn)  # noqa: S704  (drawn here: a link becomes modules, and the title is escaped)
