"""systemd's units: systemd accepts them, they sandbox Florin, and the started programs exist."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import typer
from florin_server.app.home import StateFolder
from florin_server.cli.main import app
from florin_server.settings import Settings

from tests.deploy import tools
from tests.deploy.front import DEPLOY
from tests.support.command import PATIENCE_S, make_environment

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
INSTALLED = "/opt/florin/.venv/bin/florin"
# 0 isolates a service entirely, 10 not at all
EXPOSED_MAX = 1.5


def systemd() -> str:
    return str(tools.needed(tools.of_system("systemd-analyze")))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


def values(unit: Path, name: str) -> list[str]:
    return re.findall(rf"^#?{name}=(.*)$", unit.read_text(), re.MULTILINE)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_understands_it(unit, tmp_path):
    text = unit.read_text()
    assert INSTALLED in text
    copy = tmp_path / unit.name
    # commented lines are there to be used
    copy.write_text(
        re.sub(r"^#(\w+=)", r"\1", text, flags=re.MULTILINE).replace(
            INSTALLED, str(Path(sys.executable).with_name("florin"))
        )
    )
    done = run(systemd(), "verify", "--man=no", str(copy))
    # it checks all units of the machine: only messages about Florin's count
    sent_text = [line for line in done.stderr.splitlines() if unit.name in line]
    assert sent_text == []


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_it_keeps_florin_in(unit):
    done = run(systemd(), "security", "--offline=true", str(unit))
    match = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert match, done.stderr
    assert float(match[1]) <= EXPOSED_MAX


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_it_starts_a_command_with_settings_that_there_are(unit):
    (command,) = values(unit, "ExecStart")
    program, name, *options = shlex.split(command)
    assert program == INSTALLED
    found_command = typer.main.get_command(app).commands[name]
    existing = {option for param in found_command.params for option in param.opts}
    assert {option for option in options if option.startswith("--")} <= existing
    fields = {f"FLORIN_{model_field.upper()}" for model_field in Settings.model_fields}
    for text in values(unit, "Environment"):
        assert text.partition("=")[0] in fields


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_it_waits_until_open_calls_are_answered(unit):
    (wait,) = values(unit, "TimeoutStopSec")
    assert int(wait) >= 2 * Settings.model_fields["shutdown_s"].default + 10


def calls_in(name: str) -> set[str]:
    """Return the system calls in a set of systemd's, including those of nested sets."""
    lines = [
        text.strip() for text in run(systemd(), "syscall-filter", name).stdout.splitlines()[1:]
    ]
    results = [
        calls_in(line) if line.startswith("@") else {line} for line in lines if line[:1] != "#"
    ]
    return set().union(*results) - {""}


def used_by_a_payment(folder: Path) -> set[str]:
    """Return the system calls of a Florin that starts, takes a payment and ends."""
    program, home = tools.needed(tools.strace()), StateFolder(folder / "home")
    counts = folder / "counts"
    florin = str(Path(sys.executable).with_name("florin"))
    more = {"LD_LIBRARY_PATH": tools.libraries(program), "FLORIN_METRICS_PORT": "0"}
    process = subprocess.Popen(
        [program, "-f", "-qq", "-c", "-o", counts, florin, "demo", "--up"],
        cwd=folder,
        env=make_environment(home.path, more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    watchdog = threading.Timer(PATIENCE_S, process.kill)
    watchdog.start()
    try:
        text = ""
        assert process.stdout is not None
        for line in process.stdout:
            text += line
            if "Ctrl-C ends it." in line:
                os.kill(home.find_addresses()["pid"], signal.SIGTERM)
    finally:
        watchdog.cancel()
        # a killed tracer leaves its traced process running
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    if "ptrace" in text:
        tools.needed(f"nothing is traced here: {text.strip()}")
    assert "succeeded" in text, text
    lines = [line.split() for line in counts.read_text().splitlines()]
    return {words[-1] for words in lines if words and words[0][0].isdigit()} - {"total"}


def test_worker_unit_has_the_same_sandbox_as_the_service_unit():
    def kept_in(name: str) -> list[str]:
        lines = (DEPLOY / "systemd" / name).read_text().splitlines()
        return lines[lines.index("NoNewPrivileges=true") :]

    assert kept_in("florin-worker.service") == kept_in("florin.service")


@pytest.mark.long
def test_system_calls_of_a_payment_are_allowed_by_the_unit(tmp_path):
    """The unit's filter is compared with the calls that a payment makes."""
    filters = values(DEPLOY / "systemd" / "florin.service", "SystemCallFilter")
    allowed: set[str] = set()
    for text in filters:
        named = set().union(*map(calls_in, text.removeprefix("~").split()))
        allowed = allowed - named if text.startswith("~") else allowed | named
    assert len(allowed) > 200
    used = used_by_a_payment(tmp_path)
    assert {"openat", "socket", "futex", "pwrite64"} <= used
    # SQLite hands root's files to the owner of the database; the unit's user is not root
    assert used - allowed <= ({"fchown"} if os.geteuid() == 0 else set())
