"""The formats of an export; each writes whole batches of rows into an open file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, BinaryIO, Protocol

import orjson

from florin_server.domain.exports.columns import Column, Kind
from florin_server.domain.text import csv_cell, escape_json
from florin_server.flows.exports.layout import Values

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SPECIAL = re.compile(r'[",\r\n]')


class Format(StrEnum):
    """What an export may be written as."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


class Encoder(Protocol):
    """Writes rows of one table into one file."""

    def write(self, columns: Sequence[Values]) -> None:
        """Writes some rows, which come column by column."""

    def close(self) -> None:
        """Writes what is left; the file stays open."""


class CsvEncoder:
    """RFC 4180 with a header; what is not there is empty, and an empty text is `""`.

    Texts that a program for tables would compute begin with `'`, and unsafe characters are escaped,
    as `domain.text.csv_cell` says; JSON keeps its meaning.
    """

    def __init__(self, file: BinaryIO, columns: Sequence[Column]) -> None:
        self._file = file
        self._cells = [_CSV[one.kind] for one in columns]
        self._file.write((",".join(one.name for one in columns) + "\n").encode())

    def write(self, columns: Sequence[Values]) -> None:
        """Writes some rows."""
        told = [
            ["" if value is None else cell(value) for value in values]
            for cell, values in zip(self._cells, columns, strict=True)
        ]
        self._file.write(
            "".join([",".join(row) + "\n" for row in zip(*told, strict=True)]).encode()
        )

    def close(self) -> None:
        """Nothing is left."""


class JsonlEncoder:
    """One JSON object a line, with every column; numbers beyond 53 bits are texts of digits."""

    def __init__(self, file: BinaryIO, columns: Sequence[Column]) -> None:
        self._file = file
        self._names = [one.name for one in columns]
        self._values = [_JSON.get(one.kind) for one in columns]

    def write(self, columns: Sequence[Values]) -> None:
        """Writes some rows."""
        told = [
            values if of is None else [None if value is None else of(value) for value in values]
            for of, values in zip(self._values, columns, strict=True)
        ]
        names = self._names
        lines = [
            orjson.dumps(dict(zip(names, row, strict=True)), option=orjson.OPT_APPEND_NEWLINE)
            for row in zip(*told, strict=True)
        ]
        self._file.write(b"".join(lines))

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


def moment(at_us: int) -> str:
    """ISO 8601 in UTC, to the microsecond."""
    seconds, micro = divmod(at_us, 1_000_000)
    day, second = divmod(seconds, 86_400)
    hour, second = divmod(second, 3_600)
    minute, second = divmod(second, 60)
    return f"{_day(day)}T{hour:02}:{minute:02}:{second:02}.{micro:06}Z"


def microseconds(text: str) -> int:
    """What `moment` wrote."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


@lru_cache(maxsize=4_096)
def _day(day: int) -> str:
    return str(_EPOCH.date() + timedelta(days=day))


def _cell(text: str) -> str:
    text = csv_cell(text)
    if text and _SPECIAL.search(text) is None:
        return text
    return '"' + text.replace('"', '""') + '"'


def _json(text: str) -> str:
    return _cell(escape_json(text))


def _flag(value: Any) -> str:
    return "true" if value else "false"


_CSV: dict[Kind, Callable[[Any], str]] = {
    Kind.TEXT: _cell,
    Kind.JSON: _json,
    Kind.FLAG: _flag,
    Kind.NUMBER: str,
    Kind.TIME: moment,
    Kind.MINOR: str,
    Kind.WHOLE: str,
}
_JSON: dict[Kind, Callable[[Any], Any]] = {Kind.FLAG: bool, Kind.TIME: moment, Kind.MINOR: str}
