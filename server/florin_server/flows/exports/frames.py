"""Tables of an export as data frames. Arrow is the common form; it takes the extra `export`.

pandas and Polars are asked for only by those who have them; DuckDB reads Arrow tables by the names
of their variables.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from florin_server.domain.exports.columns import Column, Kind, Row
from florin_server.domain.exports.error import NotExported
from florin_server.domain.text import csv_text
from florin_server.flows.exports import folder
from florin_server.flows.exports.arrow import batch, pa, pq, schema
from florin_server.flows.exports.feeds import Origin
from florin_server.flows.exports.formats import Format, microseconds
from florin_server.flows.exports.layout import Layout, Values

_BATCH = 8_192
_FLAGS = {"true": True, "false": False}


def arrow(to: Path, table: str, *, history: bool = False) -> Any:
    """A table of the export in a folder, as `pyarrow.Table`, each row as it was written last.

    With `history` every version of a row, in the order of writing. NotExported if it is not there.
    """
    found = folder.read(to)
    wanted = next((one for one in found.shape.tables if one.name == table), None)
    if wanted is None:
        there = ", ".join(one.name for one in found.shape.tables)
        raise NotExported(f"the export in {to} has no table {table}; it has {there}")
    columns = wanted.told(personal=found.shape.personal)
    layout = schema(columns)
    parts = [to / name for name in sorted(found.parts.get(table, {}))]
    if found.shape.format is Format.PARQUET:
        read = [pq.read_table(part, schema=layout) for part in parts]
    else:
        read = [_table(columns, layout, _rows(part, columns), _across) for part in parts]
    whole = pa.concat_tables(read) if read else layout.empty_table()
    return whole if history or not wanted.changes else _newest(whole, wanted.key)


def of_origin(origin: Origin, table: str, *, personal: bool = False) -> Any:
    """A table as `pyarrow.Table` right from where exports read, without files in between."""
    known = {*origin.tables, *(folder.KEPT if origin.kept else ())}
    (wanted,) = folder.named([table], known, personal=personal)
    layout = Layout(wanted, origin.decimals, personal=personal)
    rows = _told(origin, table)
    return _table(layout.columns, schema(layout.columns), rows, partial(layout.lay_out, part=1))


def pandas(to: Path, table: str, *, history: bool = False) -> Any:
    """The same as `arrow`, as a pandas frame on Arrow's own types: exact, and with gaps."""
    try:
        import pandas as pd  # noqa: PLC0415
    except ImportError as error:
        raise NotExported("pandas is not installed: pip install pandas") from error
    return arrow(to, table, history=history).to_pandas(types_mapper=pd.ArrowDtype)


def polars(to: Path, table: str, *, history: bool = False) -> Any:
    """The same as `arrow`, as a Polars frame."""
    try:
        import polars as pl  # noqa: PLC0415
    except ImportError as error:
        raise NotExported("Polars is not installed: pip install polars") from error
    return pl.from_arrow(arrow(to, table, history=history))


def _told(origin: Origin, table: str) -> Iterator[Row]:
    """Every row of a table; blocks that several transactions tell of come once."""
    if table in folder.KEPT:
        yield from origin.kept() if origin.kept is not None else ()
        return
    once: set[Row] = set()
    for feed in (one for one in origin.feeds if table in one.tables):
        after: str | None = ""
        while after is not None:
            page = feed.pages(after, 0)
            for root in page.roots:
                for name, row in root.rows:
                    if name != table or row in once:
                        continue
                    if table == "blocks":
                        once.add(row)
                    yield row
            after = page.after


def _table(
    columns: tuple[Column, ...],
    layout: Any,
    rows: Iterator[Row],
    across: Callable[[list[Row]], Sequence[Values]],
) -> Any:
    batches = []
    while waiting := list(islice(rows, _BATCH)):
        batches.append(batch(columns, layout, across(waiting)))
    return pa.Table.from_batches(batches, layout)


def _across(rows: list[Row]) -> Sequence[Values]:
    return list(zip(*rows, strict=True))


def _newest(whole: Any, key: tuple[str, ...]) -> Any:
    """Of rows with one key the last, in the order in which these were written."""
    numbered = whole.append_column("_n", pa.array(range(whole.num_rows), pa.int64()))
    last = numbered.group_by(list(key)).aggregate([("_n", "max")])
    return whole.take(last.column("_n_max").combine_chunks().sort())


def _rows(part: Path, columns: tuple[Column, ...]) -> Iterator[Row]:
    with part.open(newline="", encoding="utf-8") as file:
        if part.suffix == ".csv":
            told = csv.reader(file)
            next(told)
            for cells in told:
                yield tuple(map(_of_csv, columns, cells))
            return
        for line in file:
            said = orjson.loads(line)
            yield tuple(_of_json(one, said[one.name]) for one in columns)


def _of_csv(column: Column, cell: str) -> Any:
    if cell == "":
        # the reader does not tell an empty text from none
        return None
    if column.kind is Kind.FLAG:
        return _FLAGS[cell]
    if column.kind is Kind.NUMBER:
        return int(cell)
    return microseconds(cell) if column.kind is Kind.TIME else csv_text(cell)


def _of_json(column: Column, value: Any) -> Any:
    return microseconds(value) if column.kind is Kind.TIME and value is not None else value
