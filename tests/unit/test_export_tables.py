"""Tables of exports are declared so that they can be read, and formats write what they are told."""

from __future__ import annotations

import csv
import io
import json

import pytest
from florin_server.domain.exports.columns import (
    PART,
    Column,
    Kind,
    flag,
    money,
    number,
    table,
    text,
    time,
    whole,
)
from florin_server.domain.exports.columns import (
    json as json_column,
)
from florin_server.domain.exports.tables import TABLES
from florin_server.domain.text import csv_text, escape_unsafe, has_unsafe
from florin_server.flows.exports.formats import (
    CsvEncoder,
    JsonlEncoder,
    microseconds,
    moment,
)
from florin_server.flows.exports.layout import Layout
from florin_server.store.exports.sources import SOURCES
from hypothesis import given
from hypothesis import strategies as st

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
DAY_US = 86_400 * 1_000_000


def test_columns_are_of_the_kind_that_they_are_called():
    assert text("a", "b") == Column("a", Kind.TEXT, "b", "", False, None)
    assert text("a", "b", personal=True) == Column("a", Kind.TEXT, "b", "", True, None)
    assert json_column("a", "b") == Column("a", Kind.JSON, "b", "", False, None)
    assert json_column("a", "b", personal=True) == Column("a", Kind.JSON, "b", "", True, None)
    assert number("a", "b", "blocks") == Column("a", Kind.NUMBER, "b", "blocks", False, None)
    assert flag("a", "b") == Column("a", Kind.FLAG, "b", "", False, None)
    assert time("a", "b") == Column("a", Kind.TIME, "b", "UTC", False, None)


def test_an_amount_is_told_twice():
    minor, in_units = money("fee", "what it cost", "asset")
    assert minor == Column(
        "fee_minor", Kind.MINOR, "what it cost", "minor units of `asset`", False, None
    )
    told = "the same in whole units; empty if the decimals of the asset are not known"
    of = ("fee_minor", "asset")
    assert in_units == Column("fee", Kind.WHOLE, told, "whole units of `asset`", False, of)


def test_a_table_has_its_columns_side_by_side_and_the_part_at_the_end():
    pair = money("fee", "what it cost", "asset")
    one = table("t", "about", ["a"], text("a", "b"), pair, flag("c", "d"))
    assert one.columns == (text("a", "b"), *pair, flag("c", "d"), PART)
    assert (one.name, one.about, one.key, one.changes, one.kept) == (
        "t",
        "about",
        ("a",),
        False,
        False,
    )
    other = table("t", "about", ["a"], text("a", "b"), changes=True, kept=True)
    assert (other.changes, other.kept) == (True, True)


@pytest.mark.parametrize(
    ("minor", "decimals", "told"),
    [(5, 0, "5"), (5, 1, "0.5"), (5, 2, "0.05"), (1250, 2, "12.50"), (0, 6, "0.000000")],
)
def test_minor_units_are_written_as_whole_ones(minor, decimals, told):
    assert whole(minor, decimals) == whole(str(minor), decimals) == told


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_a_key_and_all_that_is_computed(name):
    table = TABLES[name]
    names = [one.name for one in table.columns]
    assert len(set(names)) == len(names)
    assert set(table.key) <= set(table.read)
    assert table.columns[-1] is PART
    for one in table.columns:
        assert one.meaning, one
        assert one.kind is not Kind.WHOLE or set(one.of or ()) <= set(table.read)
        # a number says what it counts
        assert one.unit or one.kind not in {Kind.NUMBER, Kind.MINOR, Kind.WHOLE} or one is PART
    if not table.kept:
        # what tells rows apart is never left out
        assert not [one for one in table.columns if one.personal and one.name in table.key]


def test_every_table_has_a_source():
    filled = {name for source in SOURCES for name in source.tables}
    assert filled == {name for name, table in TABLES.items() if not table.kept}


@given(st.integers(0, 2**256 - 1), st.integers(0, 255))
def test_whole_units_are_exact(minor, decimals):
    digits = whole(minor, decimals)
    before, _, behind = digits.partition(".")
    assert (int(before + behind), len(behind)) == (minor, decimals)


@given(st.integers(0, 100_000 * DAY_US))
def test_a_time_is_told_to_the_microsecond(at_us):
    assert microseconds(moment(at_us)) == at_us


def test_a_time_is_iso_8601():
    assert moment(1_800_000_000_000_001) == "2027-01-15T08:00:00.000001Z"


@given(st.lists(st.tuples(TEXTS, st.none() | TEXTS), min_size=1, max_size=5))
def test_any_text_survives(rows):
    columns = [Column("a", Kind.TEXT, "a"), Column("b", Kind.TEXT, "b")]
    cells, lines = io.BytesIO(), io.BytesIO()
    for one in (CsvEncoder(cells, columns), JsonlEncoder(lines, columns)):
        one.write(list(zip(*rows, strict=True)))
        one.close()
    text = io.StringIO(cells.getvalue().decode(), newline="")
    told = [tuple(map(csv_text, cells)) for cells in csv.reader(text)]
    shown = [(escape_unsafe(a), None if b is None else escape_unsafe(b)) for a, b in rows]
    assert told == [("a", "b"), *((a, b or "") for a, b in shown)]
    said = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [(one["a"], one["b"]) for one in said] == rows


@pytest.mark.parametrize("formula", ["=1", "a;=1", "＝1", "\t=1", "\r=1", "a\x9b\u202e"])
def test_csv_of_an_export_computes_nothing_and_steers_nothing(formula):
    cells = io.BytesIO()
    columns = [Column("a", Kind.TEXT, "a"), Column("b", Kind.JSON, "b")]
    document = json.dumps({"name": formula}, ensure_ascii=False)
    CsvEncoder(cells, columns).write([[formula], [document]])
    text = cells.getvalue().decode()
    assert not has_unsafe(text.replace("\n", ""))
    _, (cell, told) = csv.reader(io.StringIO(text, newline=""))
    assert cell.startswith(("'", "\\", "a;'", "a\\"))
    assert json.loads(csv_text(told)) == {"name": formula}


def test_nothing_and_an_empty_text_are_told_apart():
    cells = io.BytesIO()
    encoder = CsvEncoder(cells, [Column("a", Kind.TEXT, "a"), Column("b", Kind.TEXT, "b")])
    encoder.write([["", None], [None, ""]])
    assert cells.getvalue() == b'a,b\n"",\n,""\n'


def test_a_row_of_another_shape_is_no_row():
    layout = Layout(TABLES["blocks"], lambda _: None, personal=False)
    assert layout.lay_out([("eip155:1", 7, "0xbb")], 3) == [("eip155:1",), (7,), ("0xbb",), [3]]
    with pytest.raises(ValueError, match="blocks has 3 columns"):
        layout.lay_out([("eip155:1", 7)], 3)
