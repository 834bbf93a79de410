"""Measure `florin up` from an empty state to its first `ready`, and a command that queries it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.bench.florin import Florin, florin
from tests.bench.report import Figure, median_of
from tests.bench.size import sized
from tests.support.command import FLORIN

ROUNDS = sized(3, 1)
COMMANDS = sized(9, 1)


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    ready: list[float] = []
    figures: list[Figure] = []
    for _ in range(ROUNDS):
        with florin() as running:
            ready.append(running.ready_s)
            figures = figures or _asked(running)
    note = "florin up in an empty folder until /readyz answers 200"
    return [median_of("up_ready_s", ready, "s", note, at_most=3), *figures]


def _asked(running: Florin) -> list[Figure]:
    """Run whole processes from start to end, one after another."""
    home = {"FLORIN_HOME": str(running.home.path)}
    commands = {
        "list_payments_s": [str(FLORIN), "payments", "list", "--json"],
        "list_keys_s": [str(FLORIN), "keys", "list", "--json"],
        "python_s": [sys.executable, "-c", "pass"],
        "import_grpc_s": [sys.executable, "-c", "import grpc"],
    }
    notes = {
        "list_payments_s": "florin payments list, as a merchant",
        "list_keys_s": "florin keys list, as the operator",
        "python_s": "python -c pass",
        "import_grpc_s": 'python -c "import grpc"',
    }
    took: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(-1, COMMANDS):
        for name, command in commands.items():
            before_s = time.perf_counter()
            subprocess.run(command, env=os.environ | home, check=True, capture_output=True)
            # the first round reads the files into the cache
            if turn >= 0:
                took[name].append(time.perf_counter() - before_s)
    return [
        median_of(name, took[name], "s", notes[name], **({"at_most": 1} if "list" in name else {}))
        for name in commands
    ]
