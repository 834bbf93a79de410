"""The language of pages, and the format of values in their texts."""

from __future__ import annotations

from decimal import Decimal

import pytest
from babel.messages.catalog import Catalog
from florin_server.web.language import (
    LANGUAGES,
    Translations,
    get_translations,
    negotiate_language,
)
from grpc_rest_gateway.plain import PlainRequest
from markupsafe import Markup


def request_language(header: str = "", lang: str | None = None) -> str:
    query = [] if lang is None else [("lang", lang)]
    headers = [(b"accept-language", header.encode())] if header else []
    return negotiate_language(PlainRequest("GET", {}, query, headers, b"", "127.0.0.1", "https"))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", "en"),
        ("de", "de"),
        ("de-AT, en;q=0.5", "de"),
        ("pt-BR, fr;q=0.7, es;q=0.8", "es"),
        ("en;q=0.5, AR;q=0.9", "ar"),
        ("ja;q=0, de;q=0.1", "de"),
        ("tlh, *", "en"),
        ("de;q=x, fr", "fr"),
        ("de;q=1e9, fr", "fr"),
        ("de;q=\u0663, fr", "fr"),
        (",;,;q=1,", "en"),
        ("x," * 400 + "de", "en"),
    ],
)
def test_page_language_follows_the_browser_preference(header, expected):
    assert request_language(header) == expected


def test_an_address_may_ask_for_a_language_that_there_is():
    assert request_language("de", lang="ja") == "ja"
    assert request_language("de", lang="../../etc") == "de"


def make_translations(tongue: str = "en", **texts: str | tuple[str, ...]) -> Translations:
    """Return messages from texts by key; a tuple has the plural forms."""
    catalog = Catalog(tongue)
    for key, text in texts.items():
        plural = (key, key) if isinstance(text, tuple) else key
        catalog.add(plural, text, context="page")
    return Translations.from_catalog(tongue, "page", catalog)


def test_text_values_are_escaped_and_isolated():
    markup = make_translations(hello="Hi <{name}>").say("hello", name="<b>\u202e")
    assert markup == "Hi &lt;<bdi>&lt;b&gt;\u202e</bdi>&gt;"
    # nor is it a text that is filled in again
    assert make_translations(hello="Hi {name}").say("hello", name="{0.__class__}{name}") == (
        "Hi <bdi>{0.__class__}{name}</bdi>"
    )
    assert (
        make_translations(hello="Hi {name}").say("hello", name=Markup("<i>&</i>"))
        == "Hi <bdi><i>&</i></bdi>"
    )
    assert (
        make_translations(hello="Hi {name}").plain("hello", name="{0.__class__}")
        == "Hi {0.__class__}"
    )


def test_amounts_keep_every_digit():
    big = Decimal("1234567890123456789012345678901234567.123456789012345678")
    assert make_translations().format_number(big) == (
        "1,234,567,890,123,456,789,012,345,678,901,234,567.123456789012345678"
    )
    assert make_translations("de").format_number(Decimal("1234.50")) == "1.234,50"
    assert make_translations("fr").format_amount(Decimal("0.10"), "EUR") == "0,10\u00a0EUR"
    assert make_translations("ja").format_number(Decimal(1000)) == "1,000"


def test_count_has_the_plural_form_of_the_language():
    forms = tuple(f"{form} {{number}}" for form in ("zero", "one", "two", "few", "hundred", "many"))
    arabic = make_translations("ar", blocks=forms)
    assert [arabic.count("blocks", n).split()[0] for n in (0, 1, 2, 3, 100, 11)] == [
        *("zero", "one", "two", "few", "hundred", "many")
    ]
    english = make_translations("en", blocks=("{number} block", "{number} blocks"))
    assert english.count("blocks", 1) == "1 block"
    assert english.count("blocks", 1000) == "1,000 blocks"
    assert make_translations("ja", blocks=("{number} blocks",)).count("blocks", 1) == "1 blocks"


def test_durations_have_the_units_of_the_language():
    steps = {
        tongue: make_translations(tongue).format_duration(60) for tongue in ("en", "de", "fr", "ja")
    }
    assert steps == {"en": "1 minute", "de": "1 Minute", "fr": "1 minute", "ja": "1 分"}
    assert make_translations("es").format_duration(3600) == "1 hora"


def test_times_are_in_utc():
    assert make_translations("en").format_time(1_800_000_000).endswith("UTC")
    assert "2027" in make_translations("en").format_time(1_800_000_000)


def test_arabic_is_written_from_right_to_left():
    assert {text: get_translations(text, "site").direction for text in LANGUAGES} == {
        **dict.fromkeys(LANGUAGES, "ltr"),
        "ar": "rtl",
    }
