"""Countries as a language names them, for the buyer to choose from."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence
from typing import Final

from babel import Locale

# regions and made-up codes that CLDR names beside the countries of ISO 3166-1; Kosovo's XK stays
_NO_COUNTRIES: Final = frozenset(
    {"AC", "CP", "CQ", "DG", "EA", "EU", "EZ", "IC", "QO", "TA", "UN", "XA", "XB", "ZZ"}
)


@functools.cache
def countries(language: str) -> Sequence[tuple[str, str]]:
    """Each country's code in ISO 3166-1 and its name, in the order of names."""
    named = Locale(language).territories
    found = [
        (code, name)
        for code, name in named.items()
        if len(code) == 2 and code.isalpha() and code not in _NO_COUNTRIES
    ]
    return sorted(found, key=lambda one: _order(one[1]))


def _order(name: str) -> str:
    """Names with accents among those without."""
    parts = unicodedata.normalize("NFKD", name)
    return "".join(part for part in parts if not unicodedata.combining(part)).casefold()
