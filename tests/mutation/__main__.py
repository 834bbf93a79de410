"""Run `python -m tests.mutation`: mutate the code, and report the mutants that no test detects.

The tests must kill 95 % of the mutants of all modules. Each survivor needs a reason in
reasons.toml: under the name of its function, what the mutant changes and why that does not matter.
"*" covers any change in the function.
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
    namespace = parser.parse_args()
    if unknown := set(namespace.groups) - GROUPS.keys():
        parser.error(f"there is no group {', '.join(sorted(unknown))}")
    reasons = tomllib.loads(REASONS.read_text())
    results: dict[str, Found] = {}
    for name in namespace.groups or GROUPS:
        folder = namespace.folder / name
        existing = found_in(folder) if namespace.again and folder.exists() else {}
        again = unexplained(existing, reasons)
        results |= mutated(
            GROUPS[name],
            folder,
            namespace.jobs,
            anew=namespace.anew,
            again=again,
            patience=namespace.patience,
            open_ones=partial(unexplained, reasons=reasons),
        )
        print(f"{name}: done", flush=True)
    return verdict(results, reasons)


def unexplained(
    result: Mapping[str, Found], reasons: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Return the survivors without a reason: name and change."""
    return {
        name: change
        for item in result.values()
        for name, change in item.survivors.items()
        if not {change, "*"} & reasons.get(function_of(name), {}).keys()
    }


def verdict(result: Mapping[str, Found], reasons: Mapping[str, Mapping[str, str]]) -> int:
    """Print a line per module and each survivor without a reason; return 0 on success."""
    table = Table(title="Mutants", title_justify="left")
    for column in ("module", "mutants", "killed", "of these, in time", "survive", "no reason", "%"):
        table.add_column(column)
    for module, item in sorted(result.items()):
        table.add_row(
            module,
            str(item.all),
            str(item.killed),
            str(item.killed - item.outcomes["timeout"]),
            str(len(item.survivors)),
            str(len(unexplained({module: item}, reasons))),
            f"{100 * item.killed / item.all:.1f}",
        )
    open_ones = unexplained(result, reasons)
    for name, change in open_ones.items():
        print(f"{name}\n    {change}")
    killed = sum(each_item.killed for each_item in result.values())
    total = sum(each_item.all for each_item in result.values())
    Console(highlight=False, width=120).print(table)
    print(f"{killed} of {total} killed: {100 * killed / total:.1f} %")
    return 0 if killed >= _LEAST * total and not open_ones else 1


def function_of(mutant: str) -> str:
    """Return the mutated function, as a dotted name."""
    text = mutant.rpartition("__mutmut_")[0]
    module, _, name = text.rpartition(".")
    return f"{module}.{name.removeprefix('x_').removeprefix('xǁ').replace('ǁ', '.')}"


if __name__ == "__main__":
    sys.exit(main())
