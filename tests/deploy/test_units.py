"""The units of systemd: it understands them, they keep Florin in, and what they start is there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from florin_server.cli.main import app
from florin_server.config import Settings

from tests.deploy import tools
from tests.deploy.front import DEPLOY

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
INSTALLED = "/opt/florin/.venv/bin/florin"
# 0 keeps a service in entirely, 10 not at all
EXPOSED_MAX = 1.5


def systemd() -> str:
    return str(tools.needed(tools.of_system("systemd-analyze")))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


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
    # it looks at all units of the machine: what is said of ours counts
    said = [line for line in done.stderr.splitlines() if unit.name in line]
    assert said == []


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_it_keeps_florin_in(unit):
    done = run(systemd(), "security", "--offline=true", str(unit))
    told = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert told, done.stderr
    assert float(told[1]) <= EXPOSED_MAX


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_it_starts_a_command_with_settings_that_there_are(unit):
    (command,) = values(unit, "ExecStart")
    program, name, *options = shlex.split(command)
    assert program == INSTALLED
    found = typer.main.get_command(app).commands[name]
    known = {option for one in found.params for option in one.opts}
    assert {one for one in options if one.startswith("--")} <= known
    fields = {f"FLORIN_{one.upper()}" for one in Settings.model_fields}
    for one in values(unit, "Environment"):
        assert one.partition("=")[0] in fields


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_it_waits_until_open_calls_are_answered(unit):
    (wait,) = values(unit, "TimeoutStopSec")
    assert int(wait) >= 2 * Settings.model_fields["shutdown_s"].default + 10
