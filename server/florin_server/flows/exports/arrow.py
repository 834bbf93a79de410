"""Tables of an export in Arrow, and files of Parquet; both take the extra `export`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from florin_server.domain.exports.columns import Column, Kind
from florin_server.domain.exports.error import NotExported
from florin_server.flows.exports.layout import Values

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as missing:
    raise NotExported(
        "Parquet and data frames take pyarrow, which is not installed: "
        "pip install 'florin-pay[export]', or export csv or jsonl"
    ) from missing

__all__ = ["ParquetEncoder", "batch", "pa", "pq", "schema"]

# rows that a reader has in memory at a time
_GROUP_ROWS = 65_536
# what pandas, Polars and DuckDB all have: 20 digits before the point, 18 behind
_DIGITS, _SCALE = 38, 18
_TYPES: Mapping[Kind, Any] = {
    Kind.TEXT: pa.string(),
    Kind.JSON: pa.string(),
    Kind.FLAG: pa.bool_(),
    Kind.NUMBER: pa.int64(),
    Kind.TIME: pa.timestamp("us", tz="UTC"),
    # 256 bits are 78 digits, and the widest decimal of Arrow has 76
    Kind.MINOR: pa.string(),
    Kind.WHOLE: pa.decimal128(_DIGITS, _SCALE),
}


class ParquetEncoder:
    """Groups of rows, compressed, under a schema that tells unit and meaning of each column."""

    def __init__(self, file: BinaryIO, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._schema = schema(columns)
        self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")
        self._waiting: list[Any] = []
        self._rows = 0

    def write(self, columns: Sequence[Values]) -> None:
        """Writes some rows, or keeps them until there are enough for a group."""
        made = batch(self._columns, self._schema, columns)
        self._waiting.append(made)
        self._rows += made.num_rows
        if self._rows >= _GROUP_ROWS:
            self._write_group()

    def close(self) -> None:
        """Writes the last group and the index of all."""
        self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        if self._waiting:
            group = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(group, row_group_size=_GROUP_ROWS)
        self._waiting, self._rows = [], 0


def schema(columns: Sequence[Column]) -> Any:
    """The Arrow schema of some columns; their metadata tells unit and meaning."""
    return pa.schema(
        [
            pa.field(
                one.name, _TYPES[one.kind], metadata={"unit": one.unit, "meaning": one.meaning}
            )
            for one in columns
        ]
    )


def batch(columns: Sequence[Column], layout: Any, told: Sequence[Values]) -> Any:
    """What some rows have in each column, as a batch of Arrow."""
    arrays = [_array(one, values) for one, values in zip(columns, told, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=layout)


def _array(column: Column, values: Sequence[Any]) -> Any:
    wanted = _TYPES[column.kind]
    if column.kind is Kind.MINOR:
        return pa.array([None if one is None else str(one) for one in values], wanted)
    if column.kind is Kind.WHOLE:
        return pa.array([_fitting(one) for one in values], pa.string()).cast(wanted)
    if column.kind is Kind.FLAG:
        return pa.array([None if one is None else bool(one) for one in values], wanted)
    return pa.array(values, wanted)


def _fitting(digits: str | None) -> str | None:
    """A number as far as all readers know such ones; None if anything of it would be lost."""
    if digits is None:
        return None
    before, _, behind = digits.partition(".")
    if len(before) > _DIGITS - _SCALE or behind[_SCALE:].strip("0"):
        return None
    return f"{before}.{behind[:_SCALE]}" if behind else before
