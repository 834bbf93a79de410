"""Simulated days of payments, against the chain's own pace with as many settlements.

A simulation seals hardly more than one payment in a block, and lets the clock go by block by block
while one is on its way; everything that it did is compared at its end, within the time measured.

`python -m tests.bench.simulate 10000 --days 30` measures a long one by its tenths: what grows
faster than the number of payments makes later ones take longer.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.bench import load
from tests.bench.chain import push
from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support.command import FLORIN, environment

PAYMENTS, BARE = sized((1_000, 300), (8, 3))
PATIENCE_S = 600


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    run = _simulated("--payments", str(PAYMENTS))
    told, peak_mb = run.told, run.peak_mb
    rate = PAYMENTS / told["tookS"]
    bare = pool.submit(push, BARE).result(2 * load.PATIENCE_S)
    paid = told["report"]["funnel"]["succeeded"]
    note = (
        f"`florin simulate` with {PAYMENTS:,} payments of a week, {paid:,} of which "
        f"succeeded, and the check of its end; {peak_mb:,.0f} MB at most"
    )
    against = f"the chain alone mines {bare.rate:,.0f} settlements/s, one in each transaction"
    return [
        Figure("simulated_per_s", rate, "/s", note, at_least=1_000 / 60),
        Figure("simulated_vs_chain", rate / bare.rate, "×", against),
    ]


@dataclass
class _Run:
    """A simulation: what it told at its end, and what it took."""

    told: dict[str, Any] = field(default_factory=dict)
    peak_mb: float = 0.0
    # of the processor, by the payments that were done
    spent_s: dict[int, float] = field(default_factory=dict)


def _simulated(*options: str, patience_s: float = PATIENCE_S) -> _Run:
    """Runs it in a folder of its own; RuntimeError if it fails, or finds something wrong."""
    run = _Run()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        command = [FLORIN, "simulate", "--json", *options]
        with subprocess.Popen(
            command, env=environment(home, {}), stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            watched, last = psutil.Process(process.pid), ""
            for line in process.stdout:
                last = line
                with watched.oneshot():
                    run.peak_mb = max(run.peak_mb, watched.memory_info().rss / 1e6)
                    spent = watched.cpu_times()
                if (done := json.loads(line).get("done")) is not None:
                    run.spent_s[done] = spent.user + spent.system
            if process.wait(patience_s):
                raise RuntimeError(f"the simulation failed: {last}")
    run.told = json.loads(last)
    return run


def main() -> int:
    """Prints what a long one takes, by its tenths."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.simulate")
    parser.add_argument("payments", type=int)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    options = {"--payments": given.payments, "--days": given.days, "--seed": given.seed}
    words = [word for name, value in options.items() for word in (name, str(value))]
    run = _simulated(*words)
    for tenth in range(1, 11):
        done = max(one for one in run.spent_s if one <= given.payments * tenth // 10)
        print(f"{done:8,} payments  {run.spent_s[done]:8.1f} s of processor time")
    print(f"{run.told['tookS']:.0f} s, {run.peak_mb:.0f} MB at most; all of it was judged")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
