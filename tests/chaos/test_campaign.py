"""The short form of the chaos campaign: all ways to pay, all faults, on chains of both kinds."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.chaos.campaign import alarms
from tests.chaos.plan import Mood, Way, plan


# foreign chains outlive the service, embedded ones die with it
@pytest.mark.parametrize("options", [[], ["--embedded"]], ids=["foreign", "embedded"])
def test_every_payment_is_paid_once_or_provably_dead_whatever_fails(tmp_path, options):
    # a process of its own: it forks, which a process with threads and channels must not
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.campaign", "--payments", "18", "--seed", "3"]
        + ["--folder", str(tmp_path), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    result = json.loads((tmp_path / "seed-3" / "result.json").read_text())
    assert result["bad"] == [], done.stderr
    assert done.returncode == 0
    # it was a storm, and the service died in it
    assert result["deaths"] > 0
    assert sum(result["effects"].values()) > 10
    assert sum(result["ended"].values()) == 18 + len(Way)
    assert result["ended"]["succeeded"] > len(Way)


def test_a_seed_says_all_that_will_go_wrong():
    assert plan(7, 300) == plan(7, 300)
    assert plan(7, 300) != plan(8, 300)
    orders = plan(7, 300).orders
    assert {order.way for order in orders} == set(Way)
    assert {order.mood for order in orders} == set(Mood)


def test_a_fault_of_the_service_in_its_log_is_noticed(tmp_path):
    log = tmp_path / "log"
    log.write_text("1 WARNING settling waits\n2 ERROR asyncio Task exception was never retrieved\n")
    assert len(alarms(log)) == 1
