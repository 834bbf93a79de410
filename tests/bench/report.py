"""Report a run: print a table after each subject, and write everything as JSON and Markdown.

Both files are replaced as a whole after every subject, so an interrupted run keeps its results.
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
# longest error text of a failed subject
_FAULT_MAX = 500


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure; at most one of the two targets is set.

    It is the median of `rounds`. `cpu_us` is the measured process's processor time per request. A
    ratio names its `peer`, which was measured in the same run.
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
        """Return whether the target was met, or None without a target."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return self.value <= self.at_most if self.at_most is not None else None

    @property
    def shown(self) -> str:
        """Return the value as text."""
        return f"{_number(self.value)} {self.unit}"

    @property
    def spread(self) -> str:
        """Return the smallest and the largest round, or nothing for a single round."""
        if len(self.rounds) < 2:
            return ""
        return f"{_number(min(self.rounds))} … {_number(max(self.rounds))}"


def median_of(name: str, rounds: Sequence[float], unit: str, note: str, **more: Any) -> Figure:
    """Return a figure that is the median of its rounds."""
    return Figure(name, median(rounds), unit, note, rounds=tuple(rounds), **more)


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of a subject: figures, or the reason of its failure."""

    seconds: float
    figures: tuple[Figure, ...] = ()
    failed: str = ""


@dataclass(slots=True)
class Report:
    """Facts about the machine, and subjects in the order of their measurement."""

    facts: Mapping[str, Any]
    subjects: dict[str, Measured] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Replace the JSON file, and the Markdown file next to it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        result = {
            "facts": dict(self.facts),
            "subjects": {name: _to_json(subject) for name, subject in self.subjects.items()},
        }
        _replace(path, json.dumps(result, indent=2, ensure_ascii=False) + "\n")
        _replace(path.with_suffix(".md"), self.markdown())

    def markdown(self) -> str:
        """Return the report in Markdown."""
        lines = ["# Figures", "", *(f"- {name}: {value}" for name, value in self.facts.items())]
        for name, subject in self.subjects.items():
            lines += ["", f"## {name}", ""]
            lines += table(subject.figures) if subject.figures else [f"Failed: `{subject.failed}`"]
        return "\n".join(lines) + "\n"


def load(path: Path) -> Report:
    """Load a saved report."""
    result = json.loads(path.read_text())
    subjects = {}
    for name, subject in result["subjects"].items():
        figures = tuple(Figure(**_known(each)) for each in subject.get("figures", ()))
        subjects[name] = Measured(subject["seconds"], figures, subject.get("failed", ""))
    return Report(result["facts"], subjects)


def fault(error: BaseException) -> str:
    """Return the reason of a failure in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:_FAULT_MAX]


def table(figures: Sequence[Figure]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = [
        "| figure | value | rounds | CPU per request | target | met | compared with | how |",
        "|-|-:|-:|-:|-|-|-|-|",
    ]
    for figure in figures:
        cpu = "" if figure.cpu_us is None else f"{_number(figure.cpu_us)} µs"
        cells = (
            f"`{figure.name}`",
            figure.shown,
            figure.spread,
            cpu,
            figure.target,
            _WORDS[figure.met],
            figure.peer,
        )
        lines.append("| " + " | ".join(_cell(cell) for cell in (*cells, figure.note)) + " |")
    return lines


def show(subject: str, figures: Sequence[Figure]) -> None:
    """Print the table of a subject."""
    shown = Table(title=subject, title_justify="left")
    shown.add_column("figure", no_wrap=True)
    shown.add_column("value", justify="right", no_wrap=True)
    shown.add_column("target", no_wrap=True)
    shown.add_column("met")
    shown.add_column("how")
    for figure in figures:
        shown.add_row(figure.name, figure.shown, figure.target, _SIGNS[figure.met], figure.note)
    console = Console(highlight=False)
    console.print(shown)
    console.file.flush()


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _to_json(item: Measured) -> dict[str, Any]:
    seconds = round(item.seconds, 1)
    if item.failed:
        return {"seconds": seconds, "failed": item.failed}
    return {"seconds": seconds, "figures": [_row(figure) for figure in item.figures]}


def _row(figure: Figure) -> dict[str, Any]:
    """Return the columns that have a value, and what follows from them."""
    rounded = replace(
        figure,
        value=round(figure.value, 3),
        rounds=tuple(round(item, 3) for item in figure.rounds),
        cpu_us=None if figure.cpu_us is None else round(figure.cpu_us, 1),
    )
    row = {name: value for name, value in asdict(rounded).items() if value not in (None, "", ())}
    if figure.rounds:
        row["min"], row["max"] = min(rounded.rounds), max(rounded.rounds)
    if figure.met is not None:
        row["met"] = figure.met
    return row


def _known(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as a figure's arguments."""
    expected = {name: row[name] for name in Figure.__slots__ if name in row}
    # empty values were left out
    empty = {"unit": "", "note": ""}
    return {**empty, **expected, "rounds": tuple(row.get("rounds", ()))}


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f"{path.name}.new")
    with beside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
