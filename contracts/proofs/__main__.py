"""Run the long form: a million calls, every planted bug, all proofs.

python -m contracts.proofs [--keep-gas]
"""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console
from rich.table import Table

from contracts.proofs import tools as programs
from contracts.proofs.planted_bugs import PLANTED_BUGS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m contracts.proofs", description=__doc__)
    parser.add_argument("--keep-gas", action="store_true", help="keep today's gas figures")
    namespace = parser.parse_args()
    result = programs.tools()
    if isinstance(result, str):
        print(result)
        return 1
    if namespace.keep_gas:
        print(programs.gas(result, keep=True))
        return 0
    table = Table("what", "outcome", title="Settlement contracts", title_justify="left")
    answers = json.loads((programs.HERE / "answers.json").read_text())
    unanswered = {f"{check} {place}" for check, place in programs.slither(result)} ^ set(answers)
    table.add_row("slither", f"{len(answers)} findings, {len(unanswered)} without an answer")
    difference = programs.gas(result)
    table.add_row("gas", difference or "as kept")
    proofs = programs.symbolic(result)
    for name, proven in proofs.items():
        table.add_row(name, "proven" if proven else "NOT proven")
    missed = []
    for name in PLANTED_BUGS:
        broken = programs.plant_bug(result, name)
        symbolic = [text for text, proven in programs.symbolic(broken).items() if not proven]
        tried = [
            text
            for text, result_reported in programs.forge(broken).items()
            if not result_reported.passed
        ]
        table.add_row(f"planted: {name}", ", ".join((*symbolic, *tried)) or "NOT found")
        missed += [] if symbolic or tried else [name]
    reported_result = programs.forge(result, long=True)
    for name, item in reported_result.items():
        outcome = (
            item.reason if not item.passed else f"{item.calls:,} calls" if item.calls else "holds"
        )
        table.add_row(name, outcome)
    Console(highlight=False, width=150).print(table)
    good = all(proofs.values()) and all(each_item.passed for each_item in reported_result.values())
    return 0 if good and not (unanswered or difference or missed) else 1


if __name__ == "__main__":
    sys.exit(main())
