"""Tests that stand still now and then, to find those that are given too little time."""

from __future__ import annotations

import os
import subprocess
import sys

TESTS = """
import time

def test_one():
    begun = before = time.monotonic()
    while (now := time.monotonic()) - before < 0.2:
        assert now - begun < 20
        before = now
"""


def test_a_test_stands_still_while_the_time_goes_on(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.stalls"]
    done = subprocess.run(
        [*command, "--stalls-seed", "7", "--rootdir", str(tmp_path), str(tmp_path)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
