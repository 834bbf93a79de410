"""The formats of an export; each writes whole batches of rows into an open file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, BinaryIO, Protocol

import orjson

from florin_server.domain.exports.columns import ColumnKind, ExportColumn
from florin_server.domain.text import escape_json, format_csv_cell
from florin_server.features.exports.service.layout import ColumnValues

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_QUOTED_CHARS = re.compile(r'[",\r\n]')


class ExportFormat(StrEnum):
    """The format of an export."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


class RowEncoder(Protocol):
    """Writes rows of one table into one file."""

    def write(self, columns: Sequence[ColumnValues]) -> None:
        """Write some rows, which come column by column."""

    def close(self) -> None:
        """Write what is left; the file stays open."""


class CsvEncoder:
    """RFC 4180 with a header; a missing value is empty, and an empty text is `""`.

    Texts that a spreadsheet would compute begin with `'`, and unsafe characters are escaped: see
    `domain.text.format_csv_cell`. JSON keeps its meaning.
    """

    def __init__(self, file: BinaryIO, columns: Sequence[ExportColumn]) -> None:
        self._file = file
        self._formatters = [_CSV_FORMATTERS[column.kind] for column in columns]
        self._file.write((",".join(column.name for column in columns) + "\n").encode())

    def write(self, columns: Sequence[ColumnValues]) -> None:
        """Write some rows."""
        cells = [
            ["" if value is None else format_cell(value) for value in values]
            for format_cell, values in zip(self._formatters, columns, strict=True)
        ]
        self._file.write(
            "".join([",".join(row) + "\n" for row in zip(*cells, strict=True)]).encode()
        )

    def close(self) -> None:
        """Finish; nothing remains to be written."""


class JsonlEncoder:
    """One JSON object per line, with every column; numbers beyond 53 bits are strings of digits."""

    def __init__(self, file: BinaryIO, columns: Sequence[ExportColumn]) -> None:
        self._file = file
        self._names = [column.name for column in columns]
        self._converters = [_JSON_CONVERTERS.get(column.kind) for column in columns]

    def write(self, columns: Sequence[ColumnValues]) -> None:
        """Write some rows."""
        value_columns = [
            values
            if convert is None
            else [None if value is None else convert(value) for value in values]
            for convert, values in zip(self._converters, columns, strict=True)
        ]
        names = self._names
        lines = [
            orjson.dumps(dict(zip(names, row, strict=True)), option=orjson.OPT_APPEND_NEWLINE)
            for row in zip(*value_columns, strict=True)
        ]
        self._file.write(b"".join(lines))

    def close(self) -> None:
        """Finish; nothing remains to be written."""


def create_encoder(
    format_: ExportFormat, file: BinaryIO, columns: Sequence[ExportColumn]
) -> RowEncoder:
    """Return the encoder of a format; raise ExportError if its package is not installed."""
    if format_ is ExportFormat.CSV:
        return CsvEncoder(file, columns)
    if format_ is ExportFormat.JSONL:
        return JsonlEncoder(file, columns)
    # it needs an extra that few installations have
    from florin_server.features.exports.service.arrow import ParquetEncoder  # noqa: PLC0415

    return ParquetEncoder(file, columns)


def format_time(at_us: int) -> str:
    """Return ISO 8601 in UTC, to the microsecond."""
    seconds, micro = divmod(at_us, 1_000_000)
    day, second = divmod(seconds, 86_400)
    hour, second = divmod(second, 3_600)
    minute, second = divmod(second, 60)
    return f"{_format_day(day)}T{hour:02}:{minute:02}:{second:02}.{micro:06}Z"


def parse_time(text: str) -> int:
    """Parse a time that `format_time` wrote."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


@lru_cache(maxsize=4_096)
def _format_day(day: int) -> str:
    return str(_EPOCH.date() + timedelta(days=day))


def _quote_cell(text: str) -> str:
    text = format_csv_cell(text)
    if text and _QUOTED_CHARS.search(text) is None:
        return text
    return '"' + text.replace('"', '""') + '"'


def _quote_json(text: str) -> str:
    return _quote_cell(escape_json(text))


def _format_flag(value: Any) -> str:
    return "true" if value else "false"


_CSV_FORMATTERS: dict[ColumnKind, Callable[[Any], str]] = {
    ColumnKind.TEXT: _quote_cell,
    ColumnKind.JSON: _quote_json,
    ColumnKind.FLAG: _format_flag,
    ColumnKind.NUMBER: str,
    ColumnKind.TIME: format_time,
    ColumnKind.MINOR: str,
    ColumnKind.WHOLE: str,
}
_JSON_CONVERTERS: dict[ColumnKind, Callable[[Any], Any]] = {
    ColumnKind.FLAG: bool,
    ColumnKind.TIME: format_time,
    ColumnKind.MINOR: str,
}
