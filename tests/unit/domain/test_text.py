"""Test untrusted text: what is refused, what is shown, and cells without formulas."""

from __future__ import annotations

import csv
import io
import unicodedata

import pytest
from florin_server.domain import text
from hypothesis import given
from hypothesis import strategies as st

CONTROLS = [
    *map(chr, [*range(0x20), *range(0x7F, 0xA0)]),
    *"\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff\ufff9",
    "\ud800",
]
ORDINARY = [
    "Corner Café",
    "کافه\u200cنشین",
    "👩\u200d🍳",
    "קפה \u200e12",
    "喫茶店",
    "🏴\U000e0067\U000e007f",
]


@pytest.mark.parametrize("character", CONTROLS)
def test_control_and_bidi_characters_are_refused_and_escaped(character):
    assert text.has_unsafe(f"a{character}b")
    shown = text.escape_unsafe(f"a{character}b")
    assert shown.startswith("a\\")
    assert shown.endswith("b")
    assert not text.has_unsafe(shown)


@pytest.mark.parametrize("word", ORDINARY)
def test_ordinary_text_is_unchanged(word):
    assert not text.has_unsafe(word)
    assert text.escape_unsafe(word) == word


@given(st.text())
def test_no_shown_text_holds_a_control_character(content):
    shown = text.escape_unsafe(content)
    assert not any(unicodedata.category(each_text) in {"Cc", "Cs"} for each_text in shown)
    stored = text.escape_unsafe(content, multiline=True)
    assert stored.count("\n") == content.count("\n")


COMPUTED = [
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "＝1+1",
    "＋1",
    "－1+1",
    "＠a",
    "a;=cmd|'/c calc'!A1",
    "a;+1+1;b;@x",
    "a\n=1",
]


@pytest.mark.parametrize("formula", COMPUTED)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_cell_never_starts_with_a_formula_character(formula, separator):
    file = io.StringIO()
    csv.writer(file).writerow(["1", text.format_csv_cell(formula)])
    # a program without quoting rules, with any separator
    for row in file.getvalue().splitlines():
        for cell in row.split(separator):
            assert not cell.strip('"').startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))


@given(st.text(alphabet=st.sampled_from("=+-@'\t\r\n;＝1a,\"") | st.characters()))
def test_cell_text_round_trips_without_control_characters(content):
    cell = text.format_csv_cell(content)
    assert not text.has_unsafe(cell)
    assert text.parse_csv_cell(cell) == text.escape_unsafe(content)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("a\x00", ""),
        ({"fullName": "a\x9b"}, "fullName"),
        ({"fields": [{"id": "a"}, {"id": "b", "value": "\u202e"}]}, "fields[1].value"),
        ({"a": {"b\x00": "c"}}, "a"),
        ([["ok"], ["\n"]], "[1][0]"),
        ({"a": "ok", "b": [1, None, True, 1.5, "ok"]}, None),
    ],
)
def test_path_of_an_unsafe_character_in_json_is_returned(value, place):
    assert text.find_unsafe(value) == place


def test_place_in_json_is_of_bounded_length():
    value: object = "\x00"
    for _ in range(500):
        value = {"a" * 100: value}
    assert len(text.find_unsafe(value)) == 100
