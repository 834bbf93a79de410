"""Rows of sources as columns of an export: whole units are computed, personal ones left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from florin_server.domain.exports.columns import PART, Table, whole

Decimals = Callable[[str], int | None]
Values: TypeAlias = Sequence[Any]
"""What some rows have in one column."""


class Layout:
    """How rows of one table are laid out in one export."""

    def __init__(self, table: Table, decimals: Decimals, *, personal: bool) -> None:
        self.table = table
        self.columns = table.told(personal=personal)
        self._decimals = decimals
        places = {name: at for at, name in enumerate(table.read)}
        self._width = len(places)
        # where a column is in a row, and where its unit is if it has to be computed
        self._take = [
            (places[one.of[0]], places[one.of[1]]) if one.of else (places[one.name], None)
            for one in self.columns
            if one is not PART
        ]

    def lay_out(self, told: Sequence[tuple[Any, ...]], part: int) -> list[Values]:
        """Some rows, column by column, with the number of their part."""
        if any(len(row) != self._width for row in told):
            raise ValueError(f"{self.table.name} has {self._width} columns")
        values = list(zip(*told, strict=True)) if told else [()] * self._width
        made: list[Values] = []
        for at, unit_at in self._take:
            if unit_at is None:
                made.append(values[at])
            else:
                made.append(list(map(self._whole, values[at], values[unit_at])))
        made.append([part] * len(told))
        return made

    def _whole(self, minor: int | None, unit: str | None) -> str | None:
        if minor is None or unit is None:
            return None
        decimals = self._decimals(unit)
        return None if decimals is None else whole(minor, decimals)
