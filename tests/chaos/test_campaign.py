"""The short form of the chaos campaign: all ways to pay, all faults, on chains of both kinds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest

from tests.chaos.campaign import alarms
from tests.chaos.plan import Mood, Way, plan

# foreign chains outlive the service, embedded ones die with it
CHAINS = {"foreign": [], "embedded": ["--embedded"]}
PAYMENTS, SEED = 18, 3


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Both at once, each in a process of its own: they fork, which one with threads must not."""
    command = [sys.executable, "-m", "tests.chaos.campaign"]
    command += ["--payments", str(PAYMENTS), "--seed", str(SEED), "--folder"]
    with ExitStack() as stack:
        started = {}
        for name, options in CHAINS.items():
            folder = tmp_path_factory.mktemp(name)
            process = subprocess.Popen(
                [*command, str(folder), *options],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            stack.enter_context(process)
            stack.callback(end, process)
            started[name] = folder / f"seed-{SEED}" / "result.json", process
        yield started


def end(process):
    """With all of its children, if it did not end by itself."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("name", CHAINS)
def test_every_payment_is_paid_once_or_provably_dead_whatever_fails(runs, name):
    path, process = runs[name]
    said, _ = process.communicate(timeout=300)
    assert path.exists(), said
    result = json.loads(path.read_text())
    assert result["bad"] == []
    assert process.returncode == 0
    # it was a storm, and the service died in it
    assert result["deaths"] > 0
    assert sum(result["effects"].values()) > 10
    assert sum(result["ended"].values()) == PAYMENTS + len(Way)
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
