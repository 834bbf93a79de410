"""The formats of an export; each writes whole batches of rows into an open file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, BinaryIO, Protocol

import orjson

from florin_server.domain.exports.columns import Column, Kind, Row, Value

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_QUOTED = ('"', ",", "\n", "\r")


class Format(StrEnum):
    """What an export may be written as."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


class Encoder(Protocol):
    """Writes rows of one table into one file."""

    def write(self, rows: Sequence[Row]) -> None:
        """Writes some rows."""

    def close(self) -> None:
        """Writes what is left; the file stays open."""


class CsvEncoder:
    """RFC 4180 with a header; what is not there is empty, and an empty text is `""`."""

    def __init__(self, file: BinaryIO, columns: Sequence[Column]) -> None:
        self._file = file
        self._cells = [_CSV[one.kind] for one in columns]
        self._file.write((",".join(one.name for one in columns) + "\n").encode())

    def write(self, rows: Sequence[Row]) -> None:
        """Writes some rows."""
        cells = self._cells
        lines = [
            ",".join(
                [
                    "" if value is None else cell(value)
                    for cell, value in zip(cells, row, strict=True)
                ]
            )
            for row in rows
        ]
        self._file.write(("\n".join(lines) + "\n").encode() if lines else b"")

    def close(self) -> None:
        """Nothing is left."""


class JsonlEncoder:
    """One JSON object a line, with every column; numbers beyond 53 bits are texts of digits."""

    def __init__(self, file: BinaryIO, columns: Sequence[Column]) -> None:
        self._file = file
        self._names = [one.name for one in columns]
        self._values = [_JSON.get(one.kind) for one in columns]

    def write(self, rows: Sequence[Row]) -> None:
        """Writes some rows."""
        names, values = self._names, self._values
        for row in rows:
            told = [
                value if value is None or change is None else change(value)
                for change, value in zip(values, row, strict=True)
            ]
            line = dict(zip(names, told, strict=True))
            self._file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        """Nothing is left."""


def encoder(format_: Format, file: BinaryIO, columns: Sequence[Column]) -> Encoder:
    """What writes a format; NotExported if what it takes is not installed."""
    if format_ is Format.CSV:
        return CsvEncoder(file, columns)
    if format_ is Format.JSONL:
        return JsonlEncoder(file, columns)
    # it takes an extra that few installations have
    from florin_server.flows.exports.arrow import ParquetEncoder  # noqa: PLC0415

    return ParquetEncoder(file, columns)


def moment(at_us: Value) -> str:
    """ISO 8601 in UTC, to the microsecond."""
    if not isinstance(at_us, int):
        raise TypeError(f"not a time: {at_us!r}")
    at = _EPOCH + timedelta(microseconds=at_us)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06}Z"


def microseconds(text: str) -> int:
    """What `moment` wrote."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


def _cell(value: Any) -> str:
    text = str(value)
    if text and not any(one in text for one in _QUOTED):
        return text
    return '"' + text.replace('"', '""') + '"'


def _flag(value: Any) -> str:
    return "true" if value else "false"


_CSV: dict[Kind, Callable[[Any], str]] = {
    Kind.TEXT: _cell,
    Kind.JSON: _cell,
    Kind.FLAG: _flag,
    Kind.NUMBER: str,
    Kind.TIME: moment,
    Kind.MINOR: str,
    Kind.WHOLE: str,
}
_JSON: dict[Kind, Callable[[Any], Any]] = {Kind.FLAG: bool, Kind.TIME: moment, Kind.MINOR: str}
