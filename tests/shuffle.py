"""Run `python -m tests.shuffle [--runs N] [--seed N] [-m MARKERS] [path …]`: shuffle the suite.

A seed sets the order of modules and of the tests in each, the draws of `random`, the examples of
Hypothesis, and the order of sets. Failures are listed at the end, with the command that repeats
them.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from tests import scratch

RUNS = 20
FOLDER = Path("build/shuffle")
# like `make test`
PARALLEL = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder")


@dataclass(frozen=True, slots=True)
class Run:
    """The suite's result with one seed. A run that ended early has no verdict on its tests."""

    seed: int
    status: int
    tests: int
    skipped: int
    failed: tuple[str, ...]
    seconds: float

    @property
    def good(self) -> bool:
        return self.status == 0 and self.tests > 0


def command(seed: int, which: Sequence[str]) -> list[str]:
    """Return the command that runs the suite with a seed."""
    seeds = ("-p", "randomly", f"--randomly-seed={seed}", f"--hypothesis-seed={seed}")
    return ["-m", "pytest", *PARALLEL, *seeds, *which]


def repeated_by(seed: int, which: Sequence[str]) -> str:
    """Return the command as typed in a shell."""
    return f"PYTHONHASHSEED={seed} .venv/bin/python " + shlex.join(command(seed, which))


def run(seed: int, which: Sequence[str]) -> Run:
    """Run the suite; write its output to its own file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    report, log = FOLDER / f"{seed}.xml", FOLDER / f"{seed}.log"
    report.unlink(missing_ok=True)
    env = {**os.environ, "PYTHONHASHSEED": str(seed), "TMPDIR": str(scratch.folder())}
    started = time.monotonic()
    with log.open("wb") as output:
        done = subprocess.run(
            [sys.executable, *command(seed, which), f"--junitxml={report}"],
            env=env,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    cases = ET.parse(report).findall(".//testcase") if report.exists() else []
    return Run(
        seed,
        done.returncode,
        len(cases),
        sum(case.find("skipped") is not None for case in cases),
        tuple(dict.fromkeys(_name(case) for case in cases if _failed(case))),
        time.monotonic() - started,
    )


def _failed(case: ET.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def _name(case: ET.Element) -> str:
    return f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"


def format_run(this_run: Run) -> str:
    """Format a run on one line."""
    verdict = "ok" if this_run.good else f"{len(this_run.failed)} failed (exit {this_run.status})"
    counts = f"{this_run.tests:,} tests, {this_run.skipped} skipped"
    return f"seed {this_run.seed:>3}  {this_run.seconds / 60:5.1f} min  {counts}  {verdict}"


def main(args: Sequence[str]) -> int:
    """Do all runs despite failures; return 1 if any failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.shuffle", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first run; the next ones follow"
    )
    parser.add_argument("-m", dest="marked", default="", help="tests with these markers, as pytest")
    parser.add_argument("paths", nargs="*", help="tests; all of them by default")
    chosen = parser.parse_args(args)
    which = [*(["-m", chosen.marked] if chosen.marked else []), *chosen.paths]
    runs = []
    for seed in range(chosen.seed, chosen.seed + chosen.runs):
        runs.append(run(seed, which))
        print(format_run(runs[-1]), *runs[-1].failed, sep="\n    ", flush=True)
    bad = [item for item in runs if not item.good]
    print(f"\n{len(runs) - len(bad)} of {len(runs)} runs without a failure")
    for each_run in bad:
        print(f"{FOLDER}/{each_run.seed}.log; again with: {repeated_by(each_run.seed, which)}")
    return 1 if bad or not runs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
