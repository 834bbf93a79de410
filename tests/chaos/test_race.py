"""Two processes race for the same keys while the server dies: one effect, one answer each."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long


def race(folder, *options):
    # a process of its own: it forks, which a process with threads and channels must not
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.race", str(folder), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_a_key_has_one_effect_and_one_answer(tmp_path):
    result, errors = race(tmp_path / "race", "--calls", "250")
    assert result["bad"] == []
    # the race was one: keys met, bodies differed, calls were given up, the server was away
    assert result["replayed"] > 100
    assert result["statuses"]["409"] > 50
    assert result["given_up"] > 20
    assert result["unanswered"] > 0
    # who gives a call up does not fill the log
    assert "never retrieved" not in errors


def test_the_race_notices_keys_that_are_claimed_after_the_effect(tmp_path):
    result, _ = race(tmp_path / "race", "--calls", "60", "--planted")
    assert any("more than one answer is the first one" in fault for fault in result["bad"])
