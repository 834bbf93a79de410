"""Test the schemas of export tables, and that formats write the values they get."""

from __future__ import annotations

import csv
import io
import json

import pytest
from florin_server.domain.exports.columns import (
    PART_COLUMN,
    ColumnKind,
    ExportColumn,
    build_table,
    flag_column,
    format_minor_units,
    json_column,
    money_columns,
    number_column,
    text_column,
    time_column,
)
from florin_server.domain.exports.tables import TABLES
from florin_server.domain.text import escape_unsafe, has_unsafe, parse_csv_cell
from florin_server.features.exports.service.formats import (
    CsvEncoder,
    JsonlEncoder,
    format_time,
    parse_time,
)
from florin_server.features.exports.service.layout import TableLayout
from florin_server.features.exports.store.sources import SOURCES
from hypothesis import given
from hypothesis import strategies as st

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
DAY_US = 86_400 * 1_000_000


def test_columns_are_of_the_kind_that_they_are_called():
    assert text_column("a", "b") == ExportColumn("a", ColumnKind.TEXT, "b", "", False, None)
    assert text_column("a", "b", personal=True) == ExportColumn(
        "a", ColumnKind.TEXT, "b", "", True, None
    )
    assert json_column("a", "b") == ExportColumn("a", ColumnKind.JSON, "b", "", False, None)
    assert json_column("a", "b", personal=True) == ExportColumn(
        "a", ColumnKind.JSON, "b", "", True, None
    )
    assert number_column("a", "b", "blocks") == ExportColumn(
        "a", ColumnKind.NUMBER, "b", "blocks", False, None
    )
    assert flag_column("a", "b") == ExportColumn("a", ColumnKind.FLAG, "b", "", False, None)
    assert time_column("a", "b") == ExportColumn("a", ColumnKind.TIME, "b", "UTC", False, None)


def test_amount_has_a_minor_and_a_whole_unit_column():
    minor, in_units = money_columns("fee", "what it cost", "asset")
    assert minor == ExportColumn(
        "fee_minor", ColumnKind.MINOR, "what it cost", "minor units of `asset`", False, None
    )
    output = "the amount in whole units; empty if the decimals of the asset are unknown"
    of = ("fee_minor", "asset")
    assert in_units == ExportColumn(
        "fee", ColumnKind.WHOLE, output, "whole units of `asset`", False, of
    )


def test_a_table_has_its_columns_side_by_side_and_the_part_at_the_end():
    pair = money_columns("fee", "what it cost", "asset")
    table = build_table("t", "about", ["a"], text_column("a", "b"), pair, flag_column("c", "d"))
    assert table.columns == (text_column("a", "b"), *pair, flag_column("c", "d"), PART_COLUMN)
    assert (table.name, table.description, table.key, table.is_mutable, table.is_rewritten) == (
        "t",
        "about",
        ("a",),
        False,
        False,
    )
    other = build_table(
        "t", "about", ["a"], text_column("a", "b"), is_mutable=True, is_rewritten=True
    )
    assert (other.is_mutable, other.is_rewritten) == (True, True)


@pytest.mark.parametrize(
    ("minor", "decimals", "expected"),
    [(5, 0, "5"), (5, 1, "0.5"), (5, 2, "0.05"), (1250, 2, "12.50"), (0, 6, "0.000000")],
)
def test_minor_units_are_written_as_whole_ones(minor, decimals, expected):
    assert (
        format_minor_units(minor, decimals) == format_minor_units(str(minor), decimals) == expected
    )


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_a_key_and_all_that_is_computed(name):
    table = TABLES[name]
    names = [each_column.name for each_column in table.columns]
    assert len(set(names)) == len(names)
    assert set(table.key) <= set(table.source_columns)
    assert table.columns[-1] is PART_COLUMN
    for column in table.columns:
        assert column.description, column
        assert column.kind is not ColumnKind.WHOLE or set(column.computed_from or ()) <= set(
            table.source_columns
        )
        # a number's name states its unit
        assert (
            column.unit
            or column.kind not in {ColumnKind.NUMBER, ColumnKind.MINOR, ColumnKind.WHOLE}
            or column is PART_COLUMN
        )
    if not table.is_rewritten:
        # key columns are never left out
        assert not [
            each_column
            for each_column in table.columns
            if each_column.personal and each_column.name in table.key
        ]


def test_every_table_has_a_source():
    filled = {name for source in SOURCES for name in source.tables}
    assert filled == {name for name, table in TABLES.items() if not table.is_rewritten}


@given(st.integers(0, 2**256 - 1), st.integers(0, 255))
def test_whole_units_are_exact(minor, decimals):
    digits = format_minor_units(minor, decimals)
    before, _, behind = digits.partition(".")
    assert (int(before + behind), len(behind)) == (minor, decimals)


@given(st.integers(0, 100_000 * DAY_US))
def test_time_round_trips_to_the_microsecond(at_us):
    assert parse_time(format_time(at_us)) == at_us


def test_a_time_is_iso_8601():
    assert format_time(1_800_000_000_000_001) == "2027-01-15T08:00:00.000001Z"


@given(st.lists(st.tuples(TEXTS, st.none() | TEXTS), min_size=1, max_size=5))
def test_any_text_survives(rows):
    columns = [ExportColumn("a", ColumnKind.TEXT, "a"), ExportColumn("b", ColumnKind.TEXT, "b")]
    cells, lines = io.BytesIO(), io.BytesIO()
    for encoder in (CsvEncoder(cells, columns), JsonlEncoder(lines, columns)):
        encoder.write(list(zip(*rows, strict=True)))
        encoder.close()
    text = io.StringIO(cells.getvalue().decode(), newline="")
    result = [tuple(map(parse_csv_cell, cells)) for cells in csv.reader(text)]
    shown = [(escape_unsafe(a), None if b is None else escape_unsafe(b)) for a, b in rows]
    assert result == [("a", "b"), *((a, b or "") for a, b in shown)]
    sent_text = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [(item["a"], item["b"]) for item in sent_text] == rows


@pytest.mark.parametrize("formula", ["=1", "a;=1", "＝1", "\t=1", "\r=1", "a\x9b\u202e"])
def test_csv_of_an_export_computes_nothing_and_steers_nothing(formula):
    cells = io.BytesIO()
    columns = [ExportColumn("a", ColumnKind.TEXT, "a"), ExportColumn("b", ColumnKind.JSON, "b")]
    document = json.dumps({"name": formula}, ensure_ascii=False)
    CsvEncoder(cells, columns).write([[formula], [document]])
    text = cells.getvalue().decode()
    assert not has_unsafe(text.replace("\n", ""))
    _, (cell, output) = csv.reader(io.StringIO(text, newline=""))
    assert cell.startswith(("'", "\\", "a;'", "a\\"))
    assert json.loads(parse_csv_cell(output)) == {"name": formula}


def test_null_and_empty_text_are_distinguished():
    cells = io.BytesIO()
    encoder = CsvEncoder(
        cells, [ExportColumn("a", ColumnKind.TEXT, "a"), ExportColumn("b", ColumnKind.TEXT, "b")]
    )
    encoder.write([["", None], [None, ""]])
    assert cells.getvalue() == b'a,b\n"",\n,""\n'


def test_a_row_of_another_shape_is_no_row():
    layout = TableLayout(TABLES["blocks"], lambda _: None, personal=False)
    assert layout.to_columns([("eip155:1", 7, "0xbb")], 3) == [("eip155:1",), (7,), ("0xbb",), [3]]
    with pytest.raises(ValueError, match="blocks has 3 columns"):
        layout.to_columns([("eip155:1", 7)], 3)
