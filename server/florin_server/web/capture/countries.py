"""Countries as a language names them, for the buyer to choose from."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

from babel import Locale
from markupsafe import Markup

# regions and made-up codes that CLDR names beside the countries of ISO 3166-1; Kosovo's XK stays
_NO_COUNTRIES: Final = frozenset(
    {"AC", "CP", "CQ", "DG", "EA", "EU", "EZ", "IC", "QO", "TA", "UN", "XA", "XB", "ZZ"}
)

_NOTHING: Final = Markup("")
_OPTION: Final = Markup('<option value="{}">{}</option>\n')
_CHOSEN: Final = Markup('<option value="{}" selected>{}</option>\n')


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


def options(language: str, chosen: str) -> Markup:
    """The same as elements of a choice, with one of the codes chosen, or none."""
    made = _options(language)
    if (one := made.get(chosen)) is None:
        return _NOTHING.join(made.values())
    told = {**made, chosen: _CHOSEN.format(chosen, one.striptags())}
    return _NOTHING.join(told.values())


@functools.cache
def _options(language: str) -> Mapping[str, Markup]:
    return {code: _OPTION.format(code, name) for code, name in countries(language)}


def _order(name: str) -> str:
    """Names with accents among those without."""
    parts = unicodedata.normalize("NFKD", name)
    return "".join(part for part in parts if not unicodedata.combining(part)).casefold()
