"""In which language a page speaks, and how it writes amounts and times.

Texts are in `texts/<language>/<noun>.json`; all pages share those of `site`. What a text is given
is escaped and isolated: a name that is written from right to left turns nothing else around.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Final

from babel import Locale
from babel.dates import format_datetime
from babel.numbers import format_decimal
from florin_gateway.plain import PlainRequest
from markupsafe import Markup, escape

FOLDER: Final = Path(__file__).with_name("texts")
# by their own names; the first is spoken where nothing is asked for
LANGUAGES: Final[Mapping[str, str]] = {
    "en": "English",
    "de": "Deutsch",
    "es": "Español",
    "fr": "Français",
    "ar": "العربية",
    "ja": "日本語",
}
_DEFAULT: Final = "en"
# what a page is asked for in another language with
PARAMETER: Final = "lang"
# numbers and times that are written again, as pages are loaded again: 200 bytes each
_KEPT: Final = 4096
# a browser lists a handful; who sends more is read to here
_HEADER_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of one noun's pages in one language; `escaped` are the same as markup.

    `direction` is which way the language is written: "ltr" or "rtl".
    """

    language: str
    texts: Mapping[str, str]
    escaped: Mapping[str, Markup]
    direction: str

    @classmethod
    def of(cls, language: str, texts: Mapping[str, str]) -> Words:
        """The same from texts alone."""
        escaped = {key: escape(text) for key, text in texts.items()}
        return cls(language, texts, escaped, _locale(language).text_direction)

    def say(self, key: str, **values: object) -> Markup:
        """A text as markup; the values are escaped, each isolated from what is around it."""
        text = self.escaped[key]
        if not values:
            return text
        given = {name: f"<bdi>{escape(value)}</bdi>" for name, value in values.items()}
        # all of it is escaped by now: markup's own way to format would do that again
        return Markup(str.format(text, **given))  # noqa: S704  (escaped)

    def plain(self, key: str, **values: object) -> str:
        """The same without markup, for titles and attributes."""
        return self.texts[key].format(**values)

    def count(self, key: str, number: int) -> str:
        """A text about a number of things, in the form that the language has for that number.

        Forms are keys of their own, `key.one` and so on, by the plural rules of Unicode's CLDR;
        `key.other` stands for those that are not there.
        """
        form = f"{key}.{_locale(self.language).plural_form(number)}"
        text = self.texts.get(form) or self.texts[f"{key}.other"]
        return text.format(number=self.number(Decimal(number)))

    def number(self, value: Decimal) -> str:
        """A number with all of its digits, as the language groups them."""
        # 1 and 1.00 are equal, and not written alike
        return _number(self.language, str(value))

    def amount(self, value: Decimal, symbol: str) -> str:
        """An amount to the last digit, with what it is an amount of: "12.50 USD"."""
        return f"{self.number(value)}\u00a0{symbol}"

    def time(self, at_s: int) -> str:
        """A point in time in UTC, to the minute; scripts put the buyer's own zone there."""
        return _time(self.language, at_s)


def words(language: str, noun: str) -> Words:
    """The texts of a noun's pages; KeyError for a language that there is not."""
    return _words(language if language in LANGUAGES else _DEFAULT, noun)


def spoken(request: PlainRequest) -> str:
    """The language for a request: what its address asks for, else what its browser prefers.

    By RFC 9110 section 12.5.4, as far as there is a choice among a few: weights count, regions of a
    language are that language.
    """
    asked = next((value for name, value in request.query if name == PARAMETER), "")
    if asked in LANGUAGES:
        return asked
    sent = next((value for name, value in request.headers if name == b"accept-language"), b"")
    return _preferred(sent[:_HEADER_CHARS].decode("latin-1"))


@functools.lru_cache(256)
def _preferred(header: str) -> str:
    ranked: list[tuple[float, int, str]] = []
    for place, one in enumerate(header.split(",")):
        tag, _, weight = one.partition(";")
        language = tag.strip().lower().partition("-")[0]
        if language in LANGUAGES and (quality := _quality(weight)) > 0:
            ranked.append((-quality, place, language))
    return min(ranked)[2] if ranked else _DEFAULT


def _quality(weight: str) -> float:
    name, _, number = weight.strip().partition("=")
    if not name:
        return 1
    digits = number.strip()
    well_formed = len(digits) <= len("0.000") and digits.replace(".", "", 1).isdecimal()
    return float(digits) if name.strip() == "q" and digits.isascii() and well_formed else 0


@functools.lru_cache(_KEPT)
def _number(language: str, written: str) -> str:
    value = Decimal(written)
    places = max(0, -int(value.as_tuple().exponent))
    pattern = "#,##0" + ("." + "0" * places if places else "")
    with localcontext(prec=len(value.as_tuple().digits) + abs(places) + 1):
        return format_decimal(value, format=pattern, locale=_locale(language))


@functools.lru_cache(_KEPT)
def _time(language: str, at_s: int) -> str:
    at = datetime.fromtimestamp(at_s, UTC)
    return f"{format_datetime(at, 'medium', locale=_locale(language))} UTC"


@functools.cache
def _locale(language: str) -> Locale:
    return Locale(language)


@functools.cache
def _words(language: str, noun: str) -> Words:
    return Words.of(language, {**_texts(language, "site"), **_texts(language, noun)})


def _texts(language: str, noun: str) -> Mapping[str, str]:
    texts: dict[str, str] = json.loads((FOLDER / language / f"{noun}.json").read_bytes())
    return texts


def nouns() -> Sequence[str]:
    """The nouns that have pages with texts."""
    return sorted(file.stem for file in (FOLDER / _DEFAULT).glob("*.json"))
