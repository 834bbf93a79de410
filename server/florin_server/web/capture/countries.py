"""Names of countries in a language, for the buyer to choose from."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

from babel import Locale
from markupsafe import Markup

# CLDR also names regions and private codes that are no countries of ISO 3166-1; Kosovo's XK stays
_NON_COUNTRIES: Final = frozenset(
    {"AC", "CP", "CQ", "DG", "EA", "EU", "EZ", "IC", "QO", "TA", "UN", "XA", "XB", "ZZ"}
)

_NOTHING: Final = Markup("")
_OPTION: Final = Markup('<option value="{}">{}</option>\n')
_SELECTED_OPTION: Final = Markup('<option value="{}" selected>{}</option>\n')


@functools.cache
def list_countries(language: str) -> Sequence[tuple[str, str]]:
    """Return the ISO 3166-1 code and the name of each country, sorted by name."""
    named = Locale(language).territories
    countries = [
        (code, name)
        for code, name in named.items()
        if len(code) == 2 and code.isalpha() and code not in _NON_COUNTRIES
    ]
    return sorted(countries, key=lambda item: _to_sort_key(item[1]))


def render_country_options(language: str, chosen: str) -> Markup:
    """Return the countries as `option` elements, with one selected if `chosen` is its code."""
    markups = _render_options(language)
    if (markup := markups.get(chosen)) is None:
        return _NOTHING.join(markups.values())
    marked_options = {**markups, chosen: _SELECTED_OPTION.format(chosen, markup.striptags())}
    return _NOTHING.join(marked_options.values())


@functools.cache
def _render_options(language: str) -> Mapping[str, Markup]:
    return {code: _OPTION.format(code, name) for code, name in list_countries(language)}


def _to_sort_key(name: str) -> str:
    """Return the sort key of a name, in which accents do not count."""
    parts = unicodedata.normalize("NFKD", name)
    return "".join(part for part in parts if not unicodedata.combining(part)).casefold()
