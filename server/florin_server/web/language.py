"""Texts of pages in the language of their reader, with amounts and times as it writes them.

The texts are gettext catalogs in `locale/<language>/LC_MESSAGES`: `console.po` of the consoles, and
`florin.po` of all other pages. A message id is a key, and its context is the noun of the page;
pages share the messages of `site`. Values that a text is filled with are escaped and isolated, so
that a name in right-to-left script reorders nothing else.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from gettext import GNUTranslations, NullTranslations
from pathlib import Path
from typing import Final, NoReturn

from babel import Locale
from babel.dates import format_date, format_datetime, format_skeleton, format_timedelta
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.numbers import format_decimal
from grpc_rest_gateway.plain import PlainRequest
from markupsafe import Markup, escape

# Keys and not English sentences are the message ids: code picks many texts by a status or an error
# ("fault." and a name), scripts get theirs by key, and a better English text leaves the other
# languages translated. The English texts are a catalog like the others.
_FOLDER: Final = Path(__file__).with_name("locale")
_SHARED: Final = "site"
# pages of buyers need no text of the consoles, which are most of all texts
_SHARED_CATALOG: Final = "florin"
_OWN_CATALOGS: Final = frozenset({"console"})
# named in their own language; the first is the default
LANGUAGES: Final[Mapping[str, str]] = {
    "en": "English",
    "de": "Deutsch",
    "es": "Español",
    "fr": "Français",
    "ar": "العربية",
    "ja": "日本語",
}
_DEFAULT: Final = "en"
# the query parameter of pages that chooses a language
PARAMETER: Final = "lang"
# pages that are loaded again format the same numbers and times: 200 bytes each
_CACHE_SIZE: Final = 4096
# browsers list a handful of languages; the rest of a longer header is ignored
_HEADER_CHARS: Final = 500


class _MissingMessages(NullTranslations):
    """Raises KeyError for a message that a catalog lacks; gettext would return its key."""

    def npgettext(self, _context: str, msgid1: str, _msgid2: str, _n: int) -> NoReturn:
        raise KeyError(msgid1)


@dataclass(frozen=True, slots=True)
class Translations:
    """The messages of one noun's pages in one language.

    `texts` are those without plural forms, by key; `escaped` holds them as markup. `direction` is
    the direction of the script: "ltr" or "rtl".
    """

    language: str
    noun: str
    texts: Mapping[str, str]
    escaped: Mapping[str, Markup]
    messages: GNUTranslations
    direction: str

    @classmethod
    def from_catalog(
        cls, language: str, noun: str, catalog: Catalog, shared: Catalog | None = None
    ) -> Translations:
        """Return the messages of a noun in a catalog, with those that all pages share.

        `shared` is the catalog of the shared messages, if it is another one.
        """
        texts = {
            message.id: str(message.string)
            for message in (*(shared or ()), *catalog)
            if message.context in {_SHARED, noun} and isinstance(message.id, str)
        }
        escaped = {key: escape(text) for key, text in texts.items()}
        direction = _get_locale(language).text_direction
        return cls(language, noun, texts, escaped, _compile(catalog), direction)

    def say(self, key: str, /, **values: object) -> Markup:
        """Return a text as markup; its values are escaped, each isolated from what is around it."""
        text = self.escaped[key]
        if not values:
            return text
        isolated = {name: f"<bdi>{escape(value)}</bdi>" for name, value in values.items()}
        # all of it is escaped by now: markup's own way to format would do that again
        return Markup(str.format(text, **isolated))  # noqa: S704  (escaped)

    def plain(self, key: str, /, **values: object) -> str:
        """Return a text without markup, for titles and attributes."""
        return self.texts[key].format(**values)

    def count(self, key: str, number: int) -> str:
        """Return a text about a number of things, in the plural form that the number has."""
        text = self.messages.npgettext(self.noun, key, key, number)
        return text.format(number=self.format_number(Decimal(number)))

    def format_number(self, value: Decimal) -> str:
        """Return a number with all of its digits, grouped as in the language."""
        # 1 and 1.00 are equal, and written differently
        return _format_number(self.language, str(value))

    def format_amount(self, value: Decimal, symbol: str) -> str:
        """Return an amount to the last digit with the symbol of its asset: "12.50 USD"."""
        return f"{self.format_number(value)}\u00a0{symbol}"

    def format_time(self, at_s: int) -> str:
        """Return a point in time in UTC; scripts replace it by the buyer's own time zone."""
        return _format_time(self.language, at_s)

    def format_date(self, at_s: int) -> str:
        """Return the day of a point in time, in UTC."""
        return self.format_calendar_day(datetime.fromtimestamp(at_s, UTC).date())

    def format_calendar_day(self, day: date) -> str:
        """Return a day with its year."""
        return format_date(day, "medium", locale=_get_locale(self.language))

    def format_day(self, day: date, *, with_month: bool) -> str:
        """Return a day of the year as a short label, if need be without its month."""
        return _format_day(self.language, day, "MMMd" if with_month else "d")

    def format_duration(self, seconds: int) -> str:
        """Return a duration in its largest unit, rounded: "1 hour"."""
        return _format_duration(self.language, seconds)


def trim_zeros(value: Decimal) -> Decimal:
    """Return a value without trailing zeros, with at least two decimals."""
    places = -int(value.normalize().as_tuple().exponent)
    return value.quantize(Decimal(1).scaleb(-max(places, 2)))


def get_translations(language: str, noun: str) -> Translations:
    """Return the messages of a noun's pages, in the default language for an unknown one."""
    return _load_translations(language if language in LANGUAGES else _DEFAULT, noun)


def get_catalog_path(language: str, name: str = _SHARED_CATALOG) -> Path:
    """Return the path of a catalog of a language."""
    return _FOLDER / language / "LC_MESSAGES" / f"{name}.po"


def read_catalog(source: io.BufferedIOBase) -> Catalog:
    """Return the catalog in a .po file; PoFileError if it cannot be read."""
    return read_po(source, abort_invalid=True)


def negotiate_language(request: PlainRequest) -> str:
    """Return the language of an answer: the one in the query, else what the browser prefers.

    Implements RFC 9110 section 12.5.4 for a choice among a few languages: weights count, and a
    region counts as its language.
    """
    language = request.get_parameter(PARAMETER)
    if language in LANGUAGES:
        return language
    return _choose_language(request.get_header(b"accept-language")[:_HEADER_CHARS])


@functools.lru_cache(256)
def _choose_language(header: str) -> str:
    ranked: list[tuple[float, int, str]] = []
    for place, item in enumerate(header.split(",")):
        tag, _, weight = item.partition(";")
        language = tag.strip().lower().partition("-")[0]
        if language in LANGUAGES and (quality := _parse_quality(weight)) > 0:
            ranked.append((-quality, place, language))
    return min(ranked)[2] if ranked else _DEFAULT


def _parse_quality(weight: str) -> float:
    name, _, number = weight.strip().partition("=")
    if not name:
        return 1
    digits = number.strip()
    well_formed = len(digits) <= len("0.000") and digits.replace(".", "", 1).isdecimal()
    return float(digits) if name.strip() == "q" and digits.isascii() and well_formed else 0


@functools.lru_cache(_CACHE_SIZE)
def _format_number(language: str, digits: str) -> str:
    value = Decimal(digits)
    places = max(0, -int(value.as_tuple().exponent))
    pattern = "#,##0" + ("." + "0" * places if places else "")
    with localcontext(prec=len(value.as_tuple().digits) + abs(places) + 1):
        return format_decimal(value, format=pattern, locale=_get_locale(language))


@functools.lru_cache(_CACHE_SIZE)
def _format_time(language: str, at_s: int) -> str:
    at = datetime.fromtimestamp(at_s, UTC)
    return f"{format_datetime(at, 'medium', locale=_get_locale(language))} UTC"


@functools.lru_cache(_CACHE_SIZE)
def _format_day(language: str, day: date, skeleton: str) -> str:
    return format_skeleton(skeleton, day, locale=_get_locale(language))


@functools.lru_cache(_CACHE_SIZE)
def _format_duration(language: str, seconds: int) -> str:
    return str(format_timedelta(seconds, threshold=1, locale=_get_locale(language)))


@functools.cache
def _get_locale(language: str) -> Locale:
    return Locale(language)


@functools.cache
def _load_translations(language: str, noun: str) -> Translations:
    shared = _load_catalog(language, _SHARED_CATALOG)
    if noun in _OWN_CATALOGS:
        return Translations.from_catalog(language, noun, _load_catalog(language, noun), shared)
    return Translations.from_catalog(language, noun, shared)


# read when a language is first used: 2 to 20 ms, against a build step or binary files to keep equal
@functools.cache
def _load_catalog(language: str, name: str) -> Catalog:
    with get_catalog_path(language, name).open("rb") as source:
        return read_catalog(source)


# nouns of a language share a catalog
@functools.lru_cache(len(LANGUAGES) * (1 + len(_OWN_CATALOGS)))
def _compile(catalog: Catalog) -> GNUTranslations:
    compiled = io.BytesIO()
    write_mo(compiled, catalog)
    compiled.seek(0)
    messages = GNUTranslations(compiled)
    messages.add_fallback(_MissingMessages())
    return messages
