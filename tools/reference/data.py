"""`data.md`: the tables of an export, column by column, and what each format makes of a value.

Examples are written by the encoders themselves.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping

from florin_server.domain.exports.columns import PART, Column, Kind, Table, Value
from florin_server.domain.exports.tables import TABLES
from florin_server.flows.exports.arrow import schema
from florin_server.flows.exports.cursor import MARGIN_US
from florin_server.flows.exports.formats import CsvEncoder, JsonlEncoder

from tools.reference.markdown import code, page, sentence, table

_ABOUT = f"""\
What `florin export` writes; [data for analysts](../data.md) tells how to export and how to read it.

A row is told by the columns of its key. A row of a table that changes is written again by a later
run if it has changed since: of rows with one key, the one with the highest `part` counts. Rows of
other tables are written once, so that they can be added up as they are. A run compares again what
the service may still change, and what is less than {MARGIN_US // 60_000_000} minutes older than the
newest row."""
_TYPES = """\
A value that is not there is empty in CSV, where an empty text is `""`, and null elsewhere. Minor
units are exact in every format: they have up to 78 digits, so they are text where numbers end
earlier, in Parquet too, whose widest decimal has 76. Whole units are the same number with the
decimals of the asset. In Parquet they are decimals of 38 digits, 18 of them behind the point, which
is what pandas, Polars and DuckDB all read; one that does not fit is null there, never cut. Whole
units are empty if neither the settings nor the registry of known tokens tell the decimals."""
_MEANINGS: Mapping[Kind, tuple[str, Value]] = {
    Kind.TEXT: ("a text", "order-1001"),
    Kind.JSON: ("a JSON object, as text", '{"a":1}'),
    Kind.FLAG: ("true or false", True),
    Kind.NUMBER: ("an integer of 64 bits", 42),
    Kind.TIME: ("a moment in UTC, to the microsecond", 1_800_000_000_000_000),
    Kind.MINOR: ("an exact integer of up to 256 bits", 2**64),
    Kind.WHOLE: ("a decimal number", "12.500000"),
}


def data() -> str:
    """The document."""
    return page(
        "Data dictionary",
        _ABOUT,
        "## Types",
        _TYPES,
        table(
            ("Type", "What it is", "CSV", "JSON Lines", "Parquet and Arrow"),
            [_type(kind, *said) for kind, said in _MEANINGS.items()],
        ),
        f"Every table ends with {code(PART.name)} ({code(PART.kind)}): {PART.meaning}.",
        "## Tables",
        table(("Table", "What a row is", "Rows are"), [_told(one) for one in TABLES.values()]),
        *(_section(one) for one in TABLES.values()),
    )


def _type(kind: Kind, what: str, example: Value) -> tuple[str, ...]:
    column = Column("x", kind, "")
    cells, lines = io.BytesIO(), io.BytesIO()
    CsvEncoder(cells, [column]).write([[example]])
    JsonlEncoder(lines, [column]).write([[example]])
    csv = cells.getvalue().decode().splitlines()[1]
    told = json.dumps(json.loads(lines.getvalue())["x"])
    return (code(kind), sentence(what), code(csv), code(told), code(schema([column]).field(0).type))


def _told(one: Table) -> tuple[str, str, str]:
    rows = "written once"
    if one.changes:
        rows = "written again when they change"
    if one.kept:
        rows = "written anew by each run, with `--personal` only"
    return f"[{one.name}](#{one.name})", sentence(one.about), sentence(rows)


def _section(one: Table) -> str:
    rows = []
    for column in one.columns:
        if column is not PART:
            meaning = sentence(column.meaning)
            name = code(column.name) + (" (key)" if column.name in one.key else "")
            rows.append([name, code(column.kind), column.unit, meaning, _personal(column)])
    header = ["Column", "Type", "Unit", "Meaning", "Personal"]
    return f"### {one.name}\n\n{sentence(one.about)}\n\n{table(header, rows)}"


def _personal(column: Column) -> str:
    return "yes" if column.personal else ""
