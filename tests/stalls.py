"""`pytest -p tests.stalls --stalls 0.5`: stop tests now and then, as on a busy machine.

About once a second, all threads of a process stop for that many seconds, while time continues. A
test with a timeout that is too short fails here, and otherwise once in a hundred runs. Services
that tests start in separate processes are not stopped.
"""

from __future__ import annotations

import ctypes
import os
import random
import threading
import time

import pytest

_MEAN_S_BETWEEN = 0.7


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options for the length of stalls, and the seed of their times."""
    parser.addoption("--stalls", type=float, default=0.3, help="seconds of each (default: 0.3)")
    parser.addoption("--stalls-seed", type=int, default=1, help="says when (default: 1)")


def pytest_configure(config: pytest.Config) -> None:
    """Start the stalls in each process that runs tests."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        worker = os.environ.get("PYTEST_XDIST_WORKER", "")
        when = random.Random(f"{config.getoption('--stalls-seed')} {worker}")
        threading.Thread(
            target=_stall, args=(when, config.getoption("--stalls")), daemon=True
        ).start()


def _stall(when: random.Random, seconds: float) -> None:
    # unlike CDLL it keeps the interpreter's lock during the sleep, so that no other thread runs
    held = ctypes.PyDLL(None)
    while True:
        time.sleep(when.expovariate(1 / _MEAN_S_BETWEEN))
        held.usleep(int(seconds * 1_000_000))
