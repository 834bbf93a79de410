"""Run `python -m tests.bench.document [file]`: put a run's figures and its plan into a document.

Only the text between the marks is replaced. The figures come from build/bench.json, unless another
file is named.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.bench import plan, report
from tests.bench.report import Figure, Report

DOCUMENT = Path(__file__).parents[2] / "docs" / "performance.md"
_HEAD = (
    "Subject",
    "Figure",
    "Median",
    "Rounds",
    "CPU per request",
    "Compared with",
    "Target",
    "Met",
)
_MET = {True: "yes", False: "no", None: ""}


def figures(reported_report: Report) -> str:
    """Return the machine and the table of all figures.

    A subject's error can contain paths, so it stays in the run's own report.
    """
    facts = [f"- {name}: {value}" for name, value in reported_report.facts.items()]
    lines = ["| " + " | ".join(_HEAD) + " |", "|-" * len(_HEAD) + "|"]
    for name, subject in reported_report.subjects.items():
        if subject.failed:
            lines.append(_row(name, "failed", *[""] * (len(_HEAD) - 2)))
        lines += [_row(name, *_cells(figure)) for figure in subject.figures]
    return "\n".join([*facts, "", *lines])


def _cells(figure: Figure) -> list[str]:
    cpu = "" if figure.cpu_us is None else f"{figure.cpu_us:,.0f} µs"
    met = _MET[figure.met]
    return [f"`{figure.name}`", figure.shown, figure.spread, cpu, figure.peer, figure.target, met]


def _row(subject: str, *cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (f"`{subject}`", *cells)) + " |"


def put(text: str, name: str, content: str) -> str:
    """Replace the text between a name's marks; raise ValueError without marks."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, result, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not result or not ended:
        raise ValueError(f"the document has no marks for {name}")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def between(text: str, name: str) -> str:
    """Return the text between a name's marks."""
    return text.partition(f"<!-- {name}: begin -->")[2].partition(f"<!-- {name}: end -->")[0]


def written(text: str, reported_report: Report) -> str:
    """Return a document with the figures and the plan of a run."""
    return put(put(text, "figures", figures(reported_report)), "plan", plan.plan(reported_report))


if __name__ == "__main__":
    file = Path(sys.argv[1] if len(sys.argv) > 1 else "build/bench.json")
    DOCUMENT.write_text(written(DOCUMENT.read_text(), report.load(file)))
