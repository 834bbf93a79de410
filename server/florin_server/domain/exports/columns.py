"""What columns of an export are made of.

A value has one form before it is written: text, int, bool; times are microseconds since the Unix
epoch. What each format makes of that is told by `Kind`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

Value: TypeAlias = str | int | bool | None
Row: TypeAlias = tuple[Value, ...]


class Kind(StrEnum):
    """What a column holds. `MINOR` is an exact integer, `WHOLE` decimal digits with a point."""

    TEXT = "text"
    JSON = "json"
    FLAG = "flag"
    NUMBER = "number"  # fits 64 bits
    TIME = "time"
    MINOR = "minor"  # up to 256 bits
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `personal` ones are left out of an export unless they are asked for.

    A `WHOLE` column is computed: `of` names the columns with the minor units and with their unit.
    """

    name: str
    kind: Kind
    meaning: str
    unit: str = ""
    personal: bool = False
    of: tuple[str, str] | None = None


@dataclass(frozen=True)
class Table:
    """One table. Rows with equal values of `key` are one row at several times.

    With `changes` a row is written again when it has changed. A `kept` table is written anew by
    each export, since its rows are deleted when their time is over.
    """

    name: str
    about: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    changes: bool = False
    kept: bool = False

    @property
    def personal(self) -> bool:
        """True if it is left out of an export unless personal data is asked for."""
        return self.kept

    def told(self, *, personal: bool) -> tuple[Column, ...]:
        """The columns of an export."""
        return tuple(one for one in self.columns if personal or not one.personal)

    @cached_property
    def read(self) -> tuple[str, ...]:
        """The columns that a source fills in, in order; the others are computed."""
        return tuple(one.name for one in self.columns if one.of is None and one is not PART)

    @cached_property
    def key_at(self) -> tuple[int, ...]:
        """Where the key is among the columns that a source fills in."""
        return tuple(self.read.index(name) for name in self.key)


PART = Column(
    "part",
    Kind.NUMBER,
    "number of the file that holds the row; of rows with one key, the highest counts",
)


def text(name: str, meaning: str, *, personal: bool = False) -> Column:
    """A text."""
    return Column(name, Kind.TEXT, meaning, personal=personal)


def number(name: str, meaning: str, unit: str) -> Column:
    """An integer of 64 bits."""
    return Column(name, Kind.NUMBER, meaning, unit)


def flag(name: str, meaning: str) -> Column:
    """True or false."""
    return Column(name, Kind.FLAG, meaning)


def time(name: str, meaning: str) -> Column:
    """A moment."""
    return Column(name, Kind.TIME, meaning, "UTC")


def json(name: str, meaning: str, *, personal: bool = False) -> Column:
    """A JSON object as text."""
    return Column(name, Kind.JSON, meaning, personal=personal)


def money(stem: str, meaning: str, unit_in: str) -> tuple[Column, Column]:
    """An amount twice: exact in minor units, and in whole ones of what `unit_in` names."""
    minor = Column(f"{stem}_minor", Kind.MINOR, meaning, f"minor units of `{unit_in}`")
    whole = Column(
        stem,
        Kind.WHOLE,
        "the same in whole units; empty if the decimals of the asset are not known",
        f"whole units of `{unit_in}`",
        of=(minor.name, unit_in),
    )
    return minor, whole


def table(
    name: str,
    about: str,
    key: Sequence[str],
    *columns: Column | tuple[Column, ...],
    changes: bool = False,
    kept: bool = False,
) -> Table:
    """A table; pairs of columns are put side by side, and the number of the part comes last."""
    flat: list[Column] = []
    for one in columns:
        flat += one if isinstance(one, tuple) else (one,)
    return Table(name, about, tuple(key), (*flat, PART), changes, kept)


def whole(minor: int | str, decimals: int) -> str:
    """Minor units in whole ones, with all decimals, exact whatever the size."""
    digits = str(minor)
    if not decimals:
        return digits
    digits = digits.rjust(decimals + 1, "0")
    return f"{digits[:-decimals]}.{digits[-decimals:]}"
