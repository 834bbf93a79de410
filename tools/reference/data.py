"""`data.md`: the tables of an export, column by column, and the form of values in each format.

The encoders themselves write the examples.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping

from florin_server.domain.exports.columns import (
    PART_COLUMN,
    ColumnKind,
    ExportColumn,
    ExportTable,
    ExportValue,
)
from florin_server.domain.exports.tables import TABLES
from florin_server.features.exports.service.arrow import to_schema
from florin_server.features.exports.service.cursor import MARGIN_US
from florin_server.features.exports.service.formats import CsvEncoder, JsonlEncoder

from tools.reference.markdown import format_code, format_sentence, render_page, render_table

_ABOUT = f"""\
The tables that `florin export` writes; [data for analysts](../data.md) describes export and use.

The key columns identify a row. A row of a table that changes is written again by a later run if it
has changed since: of rows with equal keys, use the row with the highest `part`. Rows of other
tables are written once, so you can add up their parts. A run compares again all data that the
service can still change, and all data less than {MARGIN_US // 60_000_000} minutes older than the
newest row."""
_TYPES = """\
A missing value is empty in CSV, where empty text is `""`, and null elsewhere. Minor units are exact
in every format: they have up to 78 digits, so they are text where numbers are shorter. That
includes Parquet, whose widest decimal has 76 digits. Whole units are the same number with the
decimals of the asset. In Parquet they are decimals of 38 digits, 18 of them behind the point, which
pandas, Polars and DuckDB can all read; a value that does not fit is null there, never truncated.
Whole units are empty if neither the settings nor the registry of known tokens have the decimals."""
_KIND_MEANINGS: Mapping[ColumnKind, tuple[str, ExportValue]] = {
    ColumnKind.TEXT: ("a text", "order-1001"),
    ColumnKind.JSON: ("a JSON object, as text", '{"a":1}'),
    ColumnKind.FLAG: ("true or false", True),
    ColumnKind.NUMBER: ("an integer of 64 bits", 42),
    ColumnKind.TIME: ("a time in UTC, in microseconds", 1_800_000_000_000_000),
    ColumnKind.MINOR: ("an exact integer of up to 256 bits", 2**64),
    ColumnKind.WHOLE: ("a decimal number", "12.500000"),
}


def render_data() -> str:
    """Return the document."""
    return render_page(
        "Data dictionary",
        _ABOUT,
        "## Types",
        _TYPES,
        render_table(
            ("Type", "Meaning", "CSV", "JSON Lines", "Parquet and Arrow"),
            [_build_type_row(kind, *meaning) for kind, meaning in _KIND_MEANINGS.items()],
        ),
        f"Every table ends with {format_code(PART_COLUMN.name)} "
        f"({format_code(PART_COLUMN.kind)}): {PART_COLUMN.description}.",
        "## Tables",
        render_table(
            ("Table", "One row is", "Rows are"),
            [_build_table_row(table) for table in TABLES.values()],
        ),
        *(_render_section(table) for table in TABLES.values()),
    )


def _build_type_row(kind: ColumnKind, what: str, example: ExportValue) -> tuple[str, ...]:
    column = ExportColumn("x", kind, "")
    cells, lines = io.BytesIO(), io.BytesIO()
    CsvEncoder(cells, [column]).write([[example]])
    JsonlEncoder(lines, [column]).write([[example]])
    csv = cells.getvalue().decode().splitlines()[1]
    json_text = json.dumps(json.loads(lines.getvalue())["x"])
    return (
        format_code(kind),
        format_sentence(what),
        format_code(csv),
        format_code(json_text),
        format_code(to_schema([column]).field(0).type),
    )


def _build_table_row(table_spec: ExportTable) -> tuple[str, str, str]:
    rows = "written once"
    if table_spec.is_mutable:
        rows = "written again when they change"
    if table_spec.is_rewritten:
        rows = "written again by each run, with `--personal` only"
    return (
        f"[{table_spec.name}](#{table_spec.name})",
        format_sentence(table_spec.description),
        format_sentence(rows),
    )


def _render_section(table_spec: ExportTable) -> str:
    rows = []
    for column in table_spec.columns:
        if column is not PART_COLUMN:
            meaning = format_sentence(column.description)
            name = format_code(column.name) + (" (key)" if column.name in table_spec.key else "")
            rows.append(
                [
                    name,
                    format_code(column.kind),
                    column.unit,
                    meaning,
                    _format_personal_data(column),
                ]
            )
    header = ["Column", "Type", "Unit", "Meaning", "Personal"]
    description = format_sentence(table_spec.description)
    return f"### {table_spec.name}\n\n{description}\n\n{render_table(header, rows)}"


def _format_personal_data(column: ExportColumn) -> str:
    return "yes" if column.personal else ""
