"""Tables of an export in Arrow, and files of Parquet; both take the extra `export`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from florin_server.domain.exports.columns import ColumnKind, ExportColumn
from florin_server.domain.exports.error import ExportError
from florin_server.features.exports.service.layout import ColumnValues

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as missing:
    raise ExportError(
        "Parquet and data frames need pyarrow: pip install 'florin-pay[export]', or export csv "
        "or jsonl"
    ) from missing

__all__ = ["ParquetEncoder", "pa", "pq", "to_batch", "to_schema"]

# rows that a reader has in memory at a time
_ROW_GROUP_SIZE = 65_536
# common to pandas, Polars and DuckDB: 20 digits before the point, 18 behind
_DIGITS, _SCALE = 38, 18
_TYPES: Mapping[ColumnKind, Any] = {
    ColumnKind.TEXT: pa.string(),
    ColumnKind.JSON: pa.string(),
    ColumnKind.FLAG: pa.bool_(),
    ColumnKind.NUMBER: pa.int64(),
    ColumnKind.TIME: pa.timestamp("us", tz="UTC"),
    # 256 bits are 78 digits, and the widest decimal of Arrow has 76
    ColumnKind.MINOR: pa.string(),
    ColumnKind.WHOLE: pa.decimal128(_DIGITS, _SCALE),
}


class ParquetEncoder:
    """Compressed groups of rows, under a schema with the unit and meaning of each column."""

    def __init__(self, file: BinaryIO, columns: Sequence[ExportColumn]) -> None:
        self._columns = columns
        self._schema = to_schema(columns)
        self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")
        self._buffered_columns: list[Any] = []
        self._row_count = 0

    def write(self, columns: Sequence[ColumnValues]) -> None:
        """Write some rows, or keep them until there are enough for a group."""
        batch = to_batch(self._columns, self._schema, columns)
        self._buffered_columns.append(batch)
        self._row_count += batch.num_rows
        if self._row_count >= _ROW_GROUP_SIZE:
            self._write_group()

    def close(self) -> None:
        """Write the last group and the index of all."""
        self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        if self._buffered_columns:
            group = pa.Table.from_batches(self._buffered_columns, self._schema)
            self._writer.write_table(group, row_group_size=_ROW_GROUP_SIZE)
        self._buffered_columns, self._row_count = [], 0


def to_schema(columns: Sequence[ExportColumn]) -> Any:
    """Return the Arrow schema of some columns; their metadata contain unit and meaning."""
    return pa.schema(
        [
            pa.field(
                column.name,
                _TYPES[column.kind],
                metadata={"unit": column.unit, "meaning": column.description},
            )
            for column in columns
        ]
    )


def to_batch(
    columns: Sequence[ExportColumn], layout: Any, column_values: Sequence[ColumnValues]
) -> Any:
    """Return the values of some rows in each column, as an Arrow batch."""
    arrays = [
        _to_array(column, values) for column, values in zip(columns, column_values, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=layout)


def _to_array(column: ExportColumn, values: Sequence[Any]) -> Any:
    arrow_type = _TYPES[column.kind]
    if column.kind is ColumnKind.MINOR:
        return pa.array([None if item is None else str(item) for item in values], arrow_type)
    if column.kind is ColumnKind.WHOLE:
        return pa.array([_to_decimal_text(item) for item in values], pa.string()).cast(arrow_type)
    if column.kind is ColumnKind.FLAG:
        return pa.array([None if item is None else bool(item) for item in values], arrow_type)
    return pa.array(values, arrow_type)


def _to_decimal_text(digits: str | None) -> str | None:
    """Return a number in the range that all readers support; None if digits would be lost."""
    if digits is None:
        return None
    before, _, behind = digits.partition(".")
    if len(before) > _DIGITS - _SCALE or behind[_SCALE:].strip("0"):
        return None
    return f"{before}.{behind[:_SCALE]}" if behind else before
