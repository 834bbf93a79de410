"""In which language pages speak, and how they write what they are given."""

from __future__ import annotations

import json
import string
from decimal import Decimal

import pytest
from florin_gateway.plain import PlainRequest
from florin_server.web import language
from florin_server.web.language import FOLDER, LANGUAGES, Words, spoken, words
from markupsafe import Markup


def asked(header: str = "", lang: str | None = None) -> str:
    query = [] if lang is None else [("lang", lang)]
    headers = [(b"accept-language", header.encode())] if header else []
    return spoken(PlainRequest("GET", {}, query, headers, b"", "127.0.0.1", "https"))


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
def test_a_browser_is_answered_in_what_it_prefers(header, expected):
    assert asked(header) == expected


def test_an_address_may_ask_for_a_language_that_there_is():
    assert asked("de", lang="ja") == "ja"
    assert asked("de", lang="../../etc") == "de"


@pytest.mark.parametrize("noun", language.nouns())
@pytest.mark.parametrize("tongue", LANGUAGES)
def test_every_language_has_every_text_with_the_same_blanks(tongue, noun):
    def blanks(of: str) -> dict[str, set[str | None]]:
        texts = json.loads((FOLDER / of / f"{noun}.json").read_text())
        assert list(texts) == sorted(texts)
        return {
            # how many forms a number has differs
            key: {name for _, name, _, _ in string.Formatter().parse(text)} - {None}
            for key, text in texts.items()
            if key.rpartition(".")[2] not in {"zero", "one", "two", "few", "many"}
        }

    assert blanks(tongue) == blanks("en")


def told(tongue: str = "en", **texts: str) -> Words:
    return Words.of(tongue, texts)


def test_what_a_text_is_given_is_no_markup_and_turns_nothing_around():
    said = told(hello="Hi <{name}>").say("hello", name="<b>\u202e")
    assert said == "Hi &lt;<bdi>&lt;b&gt;\u202e</bdi>&gt;"
    # nor is it a text that is filled in again
    assert told(hello="Hi {name}").say("hello", name="{0.__class__}{name}") == (
        "Hi <bdi>{0.__class__}{name}</bdi>"
    )
    assert told(hello="Hi {name}").say("hello", name=Markup("<i>&</i>")) == "Hi <bdi><i>&</i></bdi>"
    assert told(hello="Hi {name}").plain("hello", name="{0.__class__}") == "Hi {0.__class__}"


def test_amounts_keep_every_digit():
    big = Decimal("1234567890123456789012345678901234567.123456789012345678")
    assert told().number(big) == (
        "1,234,567,890,123,456,789,012,345,678,901,234,567.123456789012345678"
    )
    assert told("de").number(Decimal("1234.50")) == "1.234,50"
    assert told("fr").amount(Decimal("0.10"), "EUR") == "0,10\u00a0EUR"
    assert told("ja").number(Decimal(1000)) == "1,000"


def test_numbers_of_things_have_the_forms_of_the_language():
    texts = {f"blocks.{form}": f"{form} {{number}}" for form in ("one", "two", "few", "other")}
    assert told("ar", **texts).count("blocks", 2).startswith("two")
    assert told("ar", **texts).count("blocks", 3).startswith("few")
    assert told("en", **texts).count("blocks", 1) == "one 1"
    assert told("ja", **texts).count("blocks", 1) == "other 1"


def test_times_are_in_utc():
    assert told("en").time(1_800_000_000).endswith("UTC")
    assert "2027" in told("en").time(1_800_000_000)


def test_arabic_is_written_from_right_to_left():
    assert {one: words(one, "site").direction for one in LANGUAGES} == {
        **dict.fromkeys(LANGUAGES, "ltr"),
        "ar": "rtl",
    }
