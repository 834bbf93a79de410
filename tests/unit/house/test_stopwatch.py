"""Test the stopwatch for ways to the first payment, without a package registry."""

from __future__ import annotations

import os
import sys

import pytest

from tools import stopwatch
from tools.stopwatch import StepError, TimedStep, format_table, list_npm_steps, list_wheel_steps


def print_text(text):
    return (sys.executable, "-c", f"print({text!r})")


def test_steps_run_in_sequence_and_are_timed(tmp_path):
    steps = [TimedStep("first", print_text("a")), TimedStep("second", print_text("b"), output="b")]
    durations = stopwatch.run_steps(tmp_path, steps, os.environ)
    assert [name for name, _ in durations] == ["first", "second"]
    assert all(seconds > 0 for _, seconds in durations)


@pytest.mark.parametrize(
    "command", [print_text("failed"), (sys.executable, "-c", "print('paid'); raise SystemExit(1)")]
)
def test_step_without_its_output_or_with_a_failure_ends_the_run(tmp_path, command):
    with pytest.raises(StepError, match="pay failed"):
        stopwatch.run_steps(tmp_path, [TimedStep("pay", command, output="paid")], os.environ)


def test_step_that_lasts_is_stopped_after_its_output(tmp_path):
    code = "import signal; print('paid', flush=True); signal.pause()"
    step = TimedStep("up", (sys.executable, "-c", code), output="paid", lasts=True)
    assert len(stopwatch.run_steps(tmp_path, [step], os.environ)) == 1
    silent = TimedStep("up", (sys.executable, "-c", "print('lost')"), output="paid", lasts=True)
    with pytest.raises(StepError, match="lost"):
        stopwatch.run_steps(tmp_path, [silent], os.environ)


def test_only_the_way_of_npm_knows_the_florin_of_the_shell(monkeypatch):
    monkeypatch.setenv("FLORIN_BASE_URL", "http://127.0.0.1:8080")
    assert "FLORIN_BASE_URL" in stopwatch.choose_variables("npm")
    assert "FLORIN_BASE_URL" not in stopwatch.choose_variables("wheels")


def test_both_ways_end_with_a_payment_that_succeeded(tmp_path):
    for steps in (list_wheel_steps(tmp_path), list_npm_steps(tmp_path)):
        assert steps[-1].output == "succeeded  transaction 0x"


def test_table_has_each_step_and_the_total():
    assert format_table([("build", 1.25), ("pay", 2.5)]).splitlines() == [
        "    1.2 s  build",
        "    2.5 s  pay",
        "    3.8 s  total",
    ]


def test_npm_without_a_running_florin_is_refused(monkeypatch):
    monkeypatch.delenv("FLORIN_BASE_URL", raising=False)
    assert "needs a running Florin" in str(stopwatch.main(["npm"]))
    assert "unknown way pip" in str(stopwatch.main(["pip"]))
