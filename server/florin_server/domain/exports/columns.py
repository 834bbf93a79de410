"""The columns of an export.

A value has one form before it is written: text, int, bool; times are microseconds since the Unix
epoch. `ColumnKind` says how each format writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

ExportValue: TypeAlias = str | int | bool | None
ExportRow: TypeAlias = tuple[ExportValue, ...]


class ColumnKind(StrEnum):
    """The type of a column. `MINOR` is an exact integer, `WHOLE` decimal digits with a point."""

    TEXT = "text"
    JSON = "json"
    FLAG = "flag"
    NUMBER = "number"  # fits 64 bits
    TIME = "time"
    MINOR = "minor"  # up to 256 bits
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class ExportColumn:
    """One column. An export contains `personal` columns only on request.

    A `WHOLE` column is computed: `computed_from` names the columns with the minor units and with
    their unit.
    """

    name: str
    kind: ColumnKind
    description: str
    unit: str = ""
    personal: bool = False
    computed_from: tuple[str, str] | None = None


@dataclass(frozen=True)
class ExportTable:
    """One table. Rows with equal values of `key` are versions of one row.

    With `is_mutable`, a row is written again after it changed. Each export writes an `is_rewritten`
    table completely, since its rows are deleted after their retention time.
    """

    name: str
    description: str
    key: tuple[str, ...]
    columns: tuple[ExportColumn, ...]
    is_mutable: bool = False
    is_rewritten: bool = False

    @property
    def personal(self) -> bool:
        """Return True if an export leaves it out unless personal data is requested."""
        return self.is_rewritten

    def list_columns(self, *, personal: bool) -> tuple[ExportColumn, ...]:
        """Return the columns of an export."""
        return tuple(column for column in self.columns if personal or not column.personal)

    @cached_property
    def source_columns(self) -> tuple[str, ...]:
        """Return the columns that a source fills in, in order; the others are computed."""
        return tuple(
            column.name
            for column in self.columns
            if column.computed_from is None and column is not PART_COLUMN
        )


PART_COLUMN = ExportColumn(
    "part",
    ColumnKind.NUMBER,
    "number of the file that contains the row; for rows with one key, the highest is valid",
)


def text_column(name: str, meaning: str, *, personal: bool = False) -> ExportColumn:
    """Return a column of texts."""
    return ExportColumn(name, ColumnKind.TEXT, meaning, personal=personal)


def number_column(name: str, meaning: str, unit: str) -> ExportColumn:
    """Return a column of 64-bit integers."""
    return ExportColumn(name, ColumnKind.NUMBER, meaning, unit)


def flag_column(name: str, meaning: str) -> ExportColumn:
    """Return a column of booleans."""
    return ExportColumn(name, ColumnKind.FLAG, meaning)


def time_column(name: str, meaning: str) -> ExportColumn:
    """Return a column of times."""
    return ExportColumn(name, ColumnKind.TIME, meaning, "UTC")


def json_column(name: str, meaning: str, *, personal: bool = False) -> ExportColumn:
    """Return a column of JSON objects as text."""
    return ExportColumn(name, ColumnKind.JSON, meaning, personal=personal)


def money_columns(stem: str, meaning: str, unit_in: str) -> tuple[ExportColumn, ExportColumn]:
    """Return the two columns of an amount: exact minor units, and whole units of `unit_in`."""
    minor = ExportColumn(f"{stem}_minor", ColumnKind.MINOR, meaning, f"minor units of `{unit_in}`")
    column = ExportColumn(
        stem,
        ColumnKind.WHOLE,
        "the amount in whole units; empty if the decimals of the asset are unknown",
        f"whole units of `{unit_in}`",
        computed_from=(minor.name, unit_in),
    )
    return minor, column


def build_table(
    name: str,
    about: str,
    key: Sequence[str],
    *columns: ExportColumn | tuple[ExportColumn, ...],
    is_mutable: bool = False,
    is_rewritten: bool = False,
) -> ExportTable:
    """Return a table; pairs of columns are adjacent, and the number of the part comes last."""
    flat_columns: list[ExportColumn] = []
    for column in columns:
        flat_columns += column if isinstance(column, tuple) else (column,)
    return ExportTable(
        name, about, tuple(key), (*flat_columns, PART_COLUMN), is_mutable, is_rewritten
    )


def format_minor_units(minor: int | str, decimals: int) -> str:
    """Return minor units as whole units, with all decimals, exact for any size."""
    digits = str(minor)
    if not decimals:
        return digits
    digits = digits.rjust(decimals + 1, "0")
    return f"{digits[:-decimals]}.{digits[-decimals:]}"
