"""Rows of sources as rows of an export: whole units are computed, and personal columns left out."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from florin_server.domain.exports.columns import PART, Kind, Row, Table, whole

Decimals = Callable[[str], int | None]


class Layout:
    """How rows of one table are laid out in one export."""

    def __init__(self, table: Table, decimals: Decimals, *, personal: bool) -> None:
        self.table = table
        self.columns = table.told(personal=personal)
        self._decimals = decimals
        places = {name: at for at, name in enumerate(table.read)}
        self._take: list[tuple[int, int]] = []
        for column in self.columns:
            if column.of is not None:
                self._take.append((places[column.of[0]], places[column.of[1]]))
            elif column is not PART:
                self._take.append((places[column.name], -1))
        self._flags = [places[one.name] for one in table.columns if one.kind is Kind.FLAG]
        self._width = len(places)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [one.name for one in self.columns]

    def row(self, told: tuple[Any, ...], part: int) -> Row:
        """A row as it is written."""
        if len(told) != self._width:
            raise ValueError(f"{self.table.name} has {self._width} columns, not {len(told)}")
        made: list[Any] = []
        for at, unit_at in self._take:
            value = told[at]
            if unit_at >= 0:
                value = self._whole(value, told[unit_at])
            elif isinstance(value, Enum):
                value = value.value
            made.append(value)
        made.append(part)
        return tuple(made)

    def _whole(self, minor: Any, unit: Any) -> str | None:
        if minor is None or unit is None:
            return None
        decimals = self._decimals(unit)
        return None if decimals is None else whole(minor, decimals)
