"""`python -m tests.bench.document [file]`: puts a run's figures, and the plan they make, into a
document.

Only what is between the marks is written, from build/bench.json unless another file is named.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.bench import plan, report
from tests.bench.report import Figure, Report

DOCUMENT = Path(__file__).parents[2] / "docs" / "performance.md"
_HEAD = ("Subject", "Figure", "Median", "Rounds", "CPU a request", "Against", "Target", "Met")
_MET = {True: "yes", False: "no", None: ""}


def figures(told: Report) -> str:
    """The machine, and the table of all figures; why a subject failed may name places, and is
    left to the run's own report.
    """
    facts = [f"- {name}: {value}" for name, value in told.facts.items()]
    lines = ["| " + " | ".join(_HEAD) + " |", "|-" * len(_HEAD) + "|"]
    for name, one in told.subjects.items():
        if one.failed:
            lines.append(_row(name, "failed", *[""] * (len(_HEAD) - 2)))
        lines += [_row(name, *_cells(figure)) for figure in one.figures]
    return "\n".join([*facts, "", *lines])


def _cells(one: Figure) -> list[str]:
    cpu = "" if one.cpu_us is None else f"{one.cpu_us:,.0f} µs"
    met = _MET[one.met]
    return [f"`{one.name}`", one.shown, one.spread, cpu, one.peer, one.target, met]


def _row(subject: str, *cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (f"`{subject}`", *cells)) + " |"


def put(text: str, name: str, content: str) -> str:
    """A document with something else between its marks of a name; ValueError if it has none."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"the document has no marks for {name}")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def between(text: str, name: str) -> str:
    """What is between the marks of a name."""
    return text.partition(f"<!-- {name}: begin -->")[2].partition(f"<!-- {name}: end -->")[0]


def written(text: str, told: Report) -> str:
    """A document with the figures and the plan of a run."""
    return put(put(text, "figures", figures(told)), "plan", plan.plan(told))


if __name__ == "__main__":
    file = Path(sys.argv[1] if len(sys.argv) > 1 else "build/bench.json")
    DOCUMENT.write_text(written(DOCUMENT.read_text(), report.load(file)))
