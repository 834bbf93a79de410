"""The table of figures, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

_SIGNS = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure; at most one of the two targets is set."""

    name: str
    value: float
    unit: str
    note: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def target(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return f"≤ {self.at_most:g}" if self.at_most is not None else ""

    @property
    def met(self) -> bool | None:
        """None without a target."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return self.value <= self.at_most if self.at_most is not None else None


def show(subject: str, figures: Sequence[Figure]) -> None:
    """Prints the table of a subject."""
    table = Table(title=subject, title_justify="left")
    table.add_column("figure", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("target", no_wrap=True)
    table.add_column("met")
    table.add_column("how")
    for figure in figures:
        value = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:.2f}"
        table.add_row(
            figure.name,
            f"{value} {figure.unit}",
            figure.target,
            _SIGNS[figure.met],
            figure.note,
        )
    console = Console(highlight=False)
    console.print(table)
    console.file.flush()


def save(figures: Sequence[Figure], path: Path) -> None:
    """Writes `{name: {value, unit, note}}`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        figure.name: {"value": round(figure.value, 3), "unit": figure.unit, "note": figure.note}
        for figure in figures
    }
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
