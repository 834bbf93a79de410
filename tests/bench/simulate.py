"""Compare simulated days of payments with the chain's own pace of as many settlements.

A simulation seals hardly more than one payment per block, and advances the clock block by block
while a payment is pending. The measured time includes its final comparison of everything.

`python -m tests.bench.simulate 10000 --days 30` measures a long run by its tenths. A cost that
grows faster than the number of payments makes later tenths slower.
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
from tests.support.command import FLORIN, make_environment

PAYMENTS, BARE = sized((1_000, 300), (8, 3))
PATIENCE_S = 600


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    run = _simulated("--payments", str(PAYMENTS))
    result, peak_mb = run.result, run.peak_mb
    rate = PAYMENTS / result["tookS"]
    bare = pool.submit(push, BARE).result(2 * load.PATIENCE_S)
    paid = result["report"]["funnel"]["succeeded"]
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
    """A simulation's result and costs."""

    result: dict[str, Any] = field(default_factory=dict)
    peak_mb: float = 0.0
    # processor seconds, by the number of finished payments
    spent_s: dict[int, float] = field(default_factory=dict)


def _simulated(*options: str, patience_s: float = PATIENCE_S) -> _Run:
    """Run a simulation in a new folder; raise RuntimeError if it fails or finds a violation."""
    run = _Run()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        command = [FLORIN, "simulate", "--json", *options]
        with subprocess.Popen(
            command, env=make_environment(home, {}), stdout=subprocess.PIPE, text=True
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
    run.result = json.loads(last)
    return run


def main() -> int:
    """Print the duration of a long run, by its tenths."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.simulate")
    parser.add_argument("payments", type=int)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--seed", type=int, default=7)
    namespace = parser.parse_args()
    options = {"--payments": namespace.payments, "--days": namespace.days, "--seed": namespace.seed}
    words = [word for name, value in options.items() for word in (name, str(value))]
    run = _simulated(*words)
    for tenth in range(1, 11):
        done = max(spent_ for spent_ in run.spent_s if spent_ <= namespace.payments * tenth // 10)
        print(f"{done:8,} payments  {run.spent_s[done]:8.1f} s of processor time")
    print(f"{run.result['tookS']:.0f} s, {run.peak_mb:.0f} MB at most; all of it was judged")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
