"""Tests that stand still now and then, to find those that are given too little time."""

from __future__ import annotations

from tests.support import inner

TESTS = """
import time

def test_one():
    begun = before = time.monotonic()
    while (now := time.monotonic()) - before < 0.2:
        assert now - begun < 20
        before = now
"""


def test_a_test_stands_still_while_the_time_goes_on(tmp_path):
    done = inner.run(tmp_path, TESTS, "-p", "tests.stalls", "--stalls-seed", "7")
    assert done.returncode == 0, done.stdout
