"""The long form: a million calls, every planted hole, all proofs.

python -m tests.solidity [--keep-gas]
"""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console
from rich.table import Table

from tests.solidity import tools as programs
from tests.solidity.holes import HOLES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.solidity", description=__doc__)
    parser.add_argument("--keep-gas", action="store_true", help="keep today's gas figures")
    wanted = parser.parse_args()
    found = programs.tools()
    if isinstance(found, str):
        print(found)
        return 1
    if wanted.keep_gas:
        print(programs.gas(found, keep=True))
        return 0
    table = Table("what", "outcome", title="Settlement contract", title_justify="left")
    answers = json.loads((programs.HERE / "answers.json").read_text())
    unanswered = {f"{check} {place}" for check, place in programs.slither(found)} ^ set(answers)
    table.add_row("slither", f"{len(answers)} findings, {len(unanswered)} without an answer")
    difference = programs.gas(found)
    table.add_row("gas", difference or "as kept")
    proofs = programs.symbolic(found)
    for name, proven in proofs.items():
        table.add_row(name, "proven" if proven else "NOT proven")
    missed = []
    for name in HOLES:
        holed = programs.with_hole(found, name)
        symbolic = [one for one, proven in programs.symbolic(holed).items() if not proven]
        tried = [one for one, told in programs.forge(holed).items() if not told.passed]
        table.add_row(f"planted: {name}", ", ".join((*symbolic, *tried)) or "NOT found")
        missed += [] if symbolic or tried else [name]
    told = programs.forge(found, long=True)
    for name, one in told.items():
        outcome = one.reason if not one.passed else f"{one.calls:,} calls" if one.calls else "holds"
        table.add_row(name, outcome)
    Console(highlight=False, width=150).print(table)
    good = all(proofs.values()) and all(one.passed for one in told.values())
    return 0 if good and not (unanswered or difference or missed) else 1


if __name__ == "__main__":
    sys.exit(main())
