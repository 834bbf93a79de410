"""SIGKILL at every durable step of a settlement: paid exactly once, every time."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def campaign(folder, bug=""):
    # a process of its own: it forks, which a process with threads and channels must not
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.kill", str(folder), bug],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_killed_at_every_step_it_pays_exactly_once(tmp_path):
    result = campaign(tmp_path)
    assert result["bad"] == ""
    assert result["steps"] > 20
    assert result["kills"] >= result["steps"]


@pytest.mark.parametrize("bug", ["amnesia", "splitledger"])
def test_the_campaign_notices_a_planted_bug(tmp_path, bug):
    assert campaign(tmp_path, bug)["bad"] != ""
