"""Simulated days of payments, against the chain's own pace with as many settlements.

A simulation seals hardly more than one payment in a block, and lets the clock go by block by block
while one is on its way; everything that it did is compared at its end, within the time measured.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from concurrent.futures import ProcessPoolExecutor
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
    told, peak_mb = _simulated()
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


def _simulated() -> tuple[dict[str, Any], float]:
    """What a simulation tells, and the most memory that it took."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        command = [FLORIN, "simulate", "--json", "--payments", str(PAYMENTS)]
        peak = 0
        with subprocess.Popen(
            command, env=environment(home, {}), stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            watched, last = psutil.Process(process.pid), ""
            for line in process.stdout:
                last = line
                peak = max(peak, watched.memory_info().rss)
            if process.wait(PATIENCE_S):
                raise RuntimeError(f"the simulation failed: {last}")
    return json.loads(last), peak / 1e6
