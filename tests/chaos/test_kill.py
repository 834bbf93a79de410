"""Test SIGKILL at every durable step of a settlement: it is paid exactly once, every time."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

pytestmark = pytest.mark.slow

BUGS = ("amnesia", "splitledger")


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory, forks):
    """Run all at once, each in its own process: it forks, which a threaded process must not."""
    with ExitStack() as stack:
        started = {}
        for bug in ("", *BUGS):
            folder = tmp_path_factory.mktemp(f"kill-{bug}")
            started[bug] = forks.module("tests.chaos.kill", str(folder), bug)
            stack.callback(started[bug].kill)
        yield started


def result_of(process):
    out, err = process.communicate(timeout=1800)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def test_killed_at_every_step_it_pays_exactly_once(campaigns):
    result = result_of(campaigns[""])
    assert result["bad"] == ""
    assert result["steps"] > 20
    assert result["kills"] >= result["steps"]
    # also while it recovered
    assert result["again"] > 10


@pytest.mark.parametrize("bug", BUGS)
def test_the_campaign_notices_a_planted_bug(campaigns, bug):
    assert result_of(campaigns[bug])["bad"] != ""
