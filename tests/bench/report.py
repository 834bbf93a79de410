"""The report of a run: a table as each subject ends, and all of it as JSON and as markdown.

Both files are replaced after every subject, whole: a run that is broken off leaves what it had.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

_SIGNS = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}
_WORDS = {True: "yes", False: "**no**", None: ""}
# of why a subject failed
_FAULT_MAX = 500


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure; at most one of the two targets is set.

    `rounds` are the values that it is the median of, and `cpu_us` is what a request costs the
    measured process in processor time. A ratio names the `peer` that was measured in the same run.
    """

    name: str
    value: float
    unit: str
    note: str
    at_least: float | None = None
    at_most: float | None = None
    rounds: tuple[float, ...] = ()
    cpu_us: float | None = None
    peer: str = ""

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

    @property
    def shown(self) -> str:
        """The value as it is read."""
        return f"{_number(self.value)} {self.unit}"

    @property
    def spread(self) -> str:
        """The smallest and the largest of the rounds; nothing for one round."""
        if len(self.rounds) < 2:
            return ""
        return f"{_number(min(self.rounds))} … {_number(max(self.rounds))}"


def median_of(name: str, rounds: Sequence[float], unit: str, note: str, **more: Any) -> Figure:
    """A figure that is the median of its rounds."""
    return Figure(name, median(rounds), unit, note, rounds=tuple(rounds), **more)


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of a subject: figures, or why there are none."""

    seconds: float
    figures: tuple[Figure, ...] = ()
    failed: str = ""


@dataclass(slots=True)
class Report:
    """Facts about the machine, and subjects in the order in which they were measured."""

    facts: Mapping[str, Any]
    subjects: dict[str, Measured] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Replaces the JSON file, and the markdown beside it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        told = {
            "facts": dict(self.facts),
            "subjects": {name: _told(one) for name, one in self.subjects.items()},
        }
        _replace(path, json.dumps(told, indent=2, ensure_ascii=False) + "\n")
        _replace(path.with_suffix(".md"), self.markdown())

    def markdown(self) -> str:
        """The same to be read."""
        lines = ["# Figures", "", *(f"- {name}: {value}" for name, value in self.facts.items())]
        for name, one in self.subjects.items():
            lines += ["", f"## {name}", ""]
            lines += table(one.figures) if one.figures else [f"Failed: `{one.failed}`"]
        return "\n".join(lines) + "\n"


def load(path: Path) -> Report:
    """A report that was saved."""
    told = json.loads(path.read_text())
    subjects = {}
    for name, one in told["subjects"].items():
        figures = tuple(Figure(**_known(each)) for each in one.get("figures", ()))
        subjects[name] = Measured(one["seconds"], figures, one.get("failed", ""))
    return Report(told["facts"], subjects)


def fault(error: BaseException) -> str:
    """Why a subject failed, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:_FAULT_MAX]


def table(figures: Sequence[Figure]) -> list[str]:
    """The lines of a table in markdown."""
    lines = [
        "| figure | value | rounds | CPU a request | target | met | against | how |",
        "|-|-:|-:|-:|-|-|-|-|",
    ]
    for one in figures:
        cpu = "" if one.cpu_us is None else f"{_number(one.cpu_us)} µs"
        cells = (f"`{one.name}`", one.shown, one.spread, cpu, one.target, _WORDS[one.met], one.peer)
        lines.append("| " + " | ".join(_cell(cell) for cell in (*cells, one.note)) + " |")
    return lines


def show(subject: str, figures: Sequence[Figure]) -> None:
    """Prints the table of a subject."""
    shown = Table(title=subject, title_justify="left")
    shown.add_column("figure", no_wrap=True)
    shown.add_column("value", justify="right", no_wrap=True)
    shown.add_column("target", no_wrap=True)
    shown.add_column("met")
    shown.add_column("how")
    for one in figures:
        shown.add_row(one.name, one.shown, one.target, _SIGNS[one.met], one.note)
    console = Console(highlight=False)
    console.print(shown)
    console.file.flush()


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _told(one: Measured) -> dict[str, Any]:
    seconds = round(one.seconds, 1)
    if one.failed:
        return {"seconds": seconds, "failed": one.failed}
    return {"seconds": seconds, "figures": [_row(figure) for figure in one.figures]}


def _row(figure: Figure) -> dict[str, Any]:
    """Its columns that say something, and what follows from them."""
    rounded = replace(
        figure,
        value=round(figure.value, 3),
        rounds=tuple(round(one, 3) for one in figure.rounds),
        cpu_us=None if figure.cpu_us is None else round(figure.cpu_us, 1),
    )
    row = {name: value for name, value in asdict(rounded).items() if value not in (None, "", ())}
    if figure.rounds:
        row["min"], row["max"] = min(rounded.rounds), max(rounded.rounds)
    if figure.met is not None:
        row["met"] = figure.met
    return row


def _known(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as a figure takes it."""
    wanted = {name: row[name] for name in Figure.__slots__ if name in row}
    # what says nothing was left out
    empty = {"unit": "", "note": ""}
    return {**empty, **wanted, "rounds": tuple(row.get("rounds", ()))}


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f"{path.name}.new")
    with beside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
