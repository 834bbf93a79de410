"""Rows of sources as columns of an export: whole units are computed, personal data is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from florin_server.domain.exports.columns import PART_COLUMN, ExportTable, format_minor_units

DecimalsFinder = Callable[[str], int | None]
ColumnValues: TypeAlias = Sequence[Any]
"""The values of some rows in one column."""


class TableLayout:
    """The layout of one table's rows in one export."""

    def __init__(
        self, table: ExportTable, find_decimals: DecimalsFinder, *, personal: bool
    ) -> None:
        self.table = table
        self.columns = table.list_columns(personal=personal)
        self._find_decimals = find_decimals
        places = {name: at for at, name in enumerate(table.source_columns)}
        self._width = len(places)
        # the position of a column in a row, and of its unit if it is computed
        self._sources = [
            (places[column.computed_from[0]], places[column.computed_from[1]])
            if column.computed_from
            else (places[column.name], None)
            for column in self.columns
            if column is not PART_COLUMN
        ]

    def to_columns(self, rows: Sequence[tuple[Any, ...]], part: int) -> list[ColumnValues]:
        """Return some rows, column by column, with the number of their part."""
        if any(len(row) != self._width for row in rows):
            raise ValueError(f"{self.table.name} has {self._width} columns")
        values = list(zip(*rows, strict=True)) if rows else [()] * self._width
        columns: list[ColumnValues] = []
        for at, unit_at in self._sources:
            if unit_at is None:
                columns.append(values[at])
            else:
                columns.append(list(map(self._to_whole_units, values[at], values[unit_at])))
        columns.append([part] * len(rows))
        return columns

    def _to_whole_units(self, minor: int | None, unit: str | None) -> str | None:
        if minor is None or unit is None:
            return None
        decimals = self._find_decimals(unit)
        return None if decimals is None else format_minor_units(minor, decimals)
