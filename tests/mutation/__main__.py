"""python -m tests.mutation: changes the code in small ways, and tells which no test notices.

Of the mutants of all modules 95 % have to be killed, and each survivor needs a reason in
reasons.toml: under the name of its function, what the mutant changes and why that does not matter;
"*" stands for whatever is changed in it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.mutation.campaign import Found, found_in, mutated
from tests.mutation.groups import GROUPS

REASONS = Path(__file__).with_name("reasons.toml")
_LEAST = 0.95


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("groups", nargs="*", metavar="group", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at a time")
    parser.add_argument("--folder", type=Path, default=Path("build/mutation"))
    parser.add_argument("--anew", action="store_true", help="forget what earlier runs found")
    parser.add_argument("--again", action="store_true", help="run once more what has no reason")
    parser.add_argument(
        "--patience",
        type=float,
        default=1,
        metavar="N",
        help="multiply the times after which a mutant counts as killed, for a busy machine",
    )
    wanted = parser.parse_args()
    if unknown := set(wanted.groups) - GROUPS.keys():
        parser.error(f"there is no group {', '.join(sorted(unknown))}")
    reasons = tomllib.loads(REASONS.read_text())
    found: dict[str, Found] = {}
    for name in wanted.groups or GROUPS:
        folder = wanted.folder / name
        known = found_in(folder) if wanted.again and folder.exists() else {}
        again = unexplained(known, reasons)
        found |= mutated(
            GROUPS[name],
            folder,
            wanted.jobs,
            anew=wanted.anew,
            again=again,
            patience=wanted.patience,
            open_ones=partial(unexplained, reasons=reasons),
        )
        print(f"{name}: done", flush=True)
    return verdict(found, reasons)


def unexplained(
    found: Mapping[str, Found], reasons: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """The survivors without a reason, by name, with what each changed."""
    return {
        name: change
        for one in found.values()
        for name, change in one.survivors.items()
        if not {change, "*"} & reasons.get(function_of(name), {}).keys()
    }


def verdict(found: Mapping[str, Found], reasons: Mapping[str, Mapping[str, str]]) -> int:
    """Prints a line for each module and every survivor without a reason; 0 if all is well."""
    table = Table(title="Mutants", title_justify="left")
    for column in ("module", "mutants", "killed", "of these, in time", "survive", "no reason", "%"):
        table.add_column(column)
    for module, one in sorted(found.items()):
        table.add_row(
            module,
            str(one.all),
            str(one.killed),
            str(one.killed - one.outcomes["timeout"]),
            str(len(one.survivors)),
            str(len(unexplained({module: one}, reasons))),
            f"{100 * one.killed / one.all:.1f}",
        )
    open_ones = unexplained(found, reasons)
    for name, change in open_ones.items():
        print(f"{name}\n    {change}")
    killed = sum(one.killed for one in found.values())
    total = sum(one.all for one in found.values())
    Console(highlight=False, width=120).print(table)
    print(f"{killed} of {total} killed: {100 * killed / total:.1f} %")
    return 0 if killed >= _LEAST * total and not open_ones else 1


def function_of(mutant: str) -> str:
    """The function that a mutant is one of, as a dotted name."""
    text = mutant.rpartition("__mutmut_")[0]
    module, _, name = text.rpartition(".")
    return f"{module}.{name.removeprefix('x_').removeprefix('xǁ').replace('ǁ', '.')}"


if __name__ == "__main__":
    sys.exit(main())
