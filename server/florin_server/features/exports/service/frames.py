"""Tables of an export as data frames. Arrow is the common form; it needs the extra `export`.

pandas and Polars are imported only on use; DuckDB reads Arrow tables by the names of their
variables.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from florin_server.domain.exports.columns import ColumnKind, ExportColumn, ExportRow
from florin_server.domain.exports.error import ExportError
from florin_server.domain.text import parse_csv_cell
from florin_server.features.exports.service import folder
from florin_server.features.exports.service.arrow import (
    pa,
    pq,
    to_batch,
    to_schema,
)
from florin_server.features.exports.service.feeds import ExportOrigin
from florin_server.features.exports.service.formats import ExportFormat, parse_time
from florin_server.features.exports.service.layout import ColumnValues, TableLayout

_BATCH_ROWS = 8_192
_FLAGS = {"true": True, "false": False}


def arrow(to: Path, table: str, *, history: bool = False) -> Any:
    """Return a table of the export in a folder, as `pyarrow.Table`, each row in its latest state.

    With `history` every version of a row, in the order of writing. ExportError without the table.
    """
    manifest = folder.read_manifest(to)
    selected_table = next(
        (each_table for each_table in manifest.spec.tables if each_table.name == table), None
    )
    if selected_table is None:
        there = ", ".join(each_table.name for each_table in manifest.spec.tables)
        raise ExportError(f"the export in {to} has no table {table}; it has {there}")
    columns = selected_table.list_columns(personal=manifest.spec.personal)
    layout = to_schema(columns)
    parts = [to / name for name in sorted(manifest.parts.get(table, {}))]
    if manifest.spec.format is ExportFormat.PARQUET:
        read = [pq.read_table(part, schema=layout) for part in parts]
    else:
        read = [
            _build_table(columns, layout, _read_part(part, columns), _transpose) for part in parts
        ]
    total = pa.concat_tables(read) if read else layout.empty_table()
    return (
        total
        if history or not selected_table.is_mutable
        else _select_newest(total, selected_table.key)
    )


def read_origin(origin: ExportOrigin, table: str, *, personal: bool = False) -> Any:
    """Return a table as `pyarrow.Table` directly from the source, without files."""
    available_tables = {
        *origin.tables,
        *(folder.BUYER_DATA_TABLES if origin.read_buyer_data else ()),
    }
    (selected_table,) = folder.select_tables([table], available_tables, personal=personal)
    layout = TableLayout(selected_table, origin.find_decimals, personal=personal)
    rows = _read_rows(origin, table)
    return _build_table(
        layout.columns, to_schema(layout.columns), rows, partial(layout.to_columns, part=1)
    )


def pandas(to: Path, table: str, *, history: bool = False) -> Any:
    """Return a table like `arrow`, as a pandas frame on Arrow's own types: exact, and with gaps."""
    try:
        import pandas as pd  # noqa: PLC0415
    except ImportError as error:
        raise ExportError("pandas is not installed: pip install pandas") from error
    return arrow(to, table, history=history).to_pandas(types_mapper=pd.ArrowDtype)


def polars(to: Path, table: str, *, history: bool = False) -> Any:
    """Return a table like `arrow`, as a Polars frame."""
    try:
        import polars as pl  # noqa: PLC0415
    except ImportError as error:
        raise ExportError("Polars is not installed: pip install polars") from error
    return pl.from_arrow(arrow(to, table, history=history))


def _read_rows(origin: ExportOrigin, table: str) -> Iterator[ExportRow]:
    """Return every row of a table; blocks of several transactions occur once."""
    if table in folder.BUYER_DATA_TABLES:
        yield from origin.read_buyer_data() if origin.read_buyer_data is not None else ()
        return
    once: set[ExportRow] = set()
    for feed in (each_feed for each_feed in origin.feeds if table in each_feed.tables):
        after: str | None = ""
        while after is not None:
            page = feed.read_page(after, 0)
            for root in page.roots:
                for name, row in root.rows:
                    if name != table or row in once:
                        continue
                    if table == "blocks":
                        once.add(row)
                    yield row
            after = page.next_key


def _build_table(
    columns: tuple[ExportColumn, ...],
    layout: Any,
    rows: Iterator[ExportRow],
    transpose: Callable[[list[ExportRow]], Sequence[ColumnValues]],
) -> Any:
    batches = []
    while waiting := list(islice(rows, _BATCH_ROWS)):
        batches.append(to_batch(columns, layout, transpose(waiting)))
    return pa.Table.from_batches(batches, layout)


def _transpose(rows: list[ExportRow]) -> Sequence[ColumnValues]:
    return list(zip(*rows, strict=True))


def _select_newest(table: Any, key: tuple[str, ...]) -> Any:
    """Return the last written row of each key."""
    numbered = table.append_column("_n", pa.array(range(table.num_rows), pa.int64()))
    last = numbered.group_by(list(key)).aggregate([("_n", "max")])
    return table.take(last.column("_n_max").combine_chunks().sort())


def _read_part(part: Path, columns: tuple[ExportColumn, ...]) -> Iterator[ExportRow]:
    with part.open(newline="", encoding="utf-8") as file:
        if part.suffix == ".csv":
            reader = csv.reader(file)
            next(reader)
            for cells in reader:
                yield tuple(map(_parse_csv, columns, cells))
            return
        for line in file:
            values = orjson.loads(line)
            yield tuple(_parse_json(column, values[column.name]) for column in columns)


def _parse_csv(column: ExportColumn, cell: str) -> Any:
    if cell == "":
        # the reader does not distinguish an empty text from none
        return None
    if column.kind is ColumnKind.FLAG:
        return _FLAGS[cell]
    if column.kind is ColumnKind.NUMBER:
        return int(cell)
    return parse_time(cell) if column.kind is ColumnKind.TIME else parse_csv_cell(cell)


def _parse_json(column: ExportColumn, value: Any) -> Any:
    return parse_time(value) if column.kind is ColumnKind.TIME and value is not None else value
