"""`make setup` and `make install`: what they say without Python or network, and after a kill.

Python, pip and uv are replaced by a script, so that nothing is installed; the last test is real.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.support.command import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
SOURCES = ("client", "gateway", "gateway/options", "sandbox", ".")
STOPPED = (
    "Florin is not installed: see the error above. Packages come from pypi.org; behind a proxy set "
    "HTTPS_PROXY, for a mirror PIP_INDEX_URL and UV_DEFAULT_INDEX. Then run `make {}` again."
)
# a Python that makes environments of itself, with a pip that brings a uv like itself
FAKE = """\
#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
case "$*" in
  "-c "*) exit "${WRONG:-0}";;
  "-m pip --version") exit "${NO_PIP:-0}";;
  "-m ensurepip") exit "${NO_PIP:-0}";;
  "-m venv --clear "*) rm -rf "$4"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python";;
  "-m pip install "*) cp "$0" "$(dirname "$0")/uv"; exit "${OFFLINE:-0}";;
  "sync "*)
    cp "$0" "$(dirname "$0")/florin"; cp "$0" "$(dirname "$0")/pytest"
    [ -z "$KILLED" ] || kill -9 0
    exit "${NO_WHEELS:-0}";;
esac
"""


class Checkout:
    """A folder with the Makefile, and a replaced Python."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls = folder, folder / "calls"
        for source in SOURCES:
            (folder / source).mkdir(parents=True, exist_ok=True)
            (folder / source / "pyproject.toml").touch()
        (folder / "uv.lock").touch()
        shutil.copy(ROOT / "Makefile", folder)
        self.python = folder / "python3.11"
        self.python.write_text(FAKE)
        self.python.chmod(0o755)

    def make(self, *arguments: str, **changes: str) -> tuple[int, str, list[str]]:
        """Return the exit status, the last line of the errors but make's own, and the calls."""
        self.calls.write_text("")
        env = {"PATH": f"{self.folder}:/usr/bin:/bin", "CALLS": str(self.calls), **changes}
        done = subprocess.run(
            ["make", *arguments],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            start_new_session=True,
        )
        lines = [line for line in done.stderr.splitlines() if not line.startswith("make:")]
        return done.returncode, "\n".join(lines), self.calls.read_text().splitlines()

    def is_current(self) -> bool:
        return self.make("-q", "setup")[0] == 0


@pytest.fixture
def checkout(tmp_path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.parametrize("target", ["setup", "install"])
def test_another_python_is_refused_in_one_sentence(checkout, target):
    expected = (
        "python3.11 is missing, or is not Python 3.11 to 3.14: name one that this machine has, "
        f"such as `make {target} PYTHON=python3.12`."
    )
    assert checkout.make(target, WRONG="1")[:2] == (2, expected)
    assert checkout.make(target, "PYTHON=python3.99")[:2] == (2, expected.replace("11", "99", 1))
    assert not (checkout.folder / ".venv").exists()
    assert checkout.make(target)[:2] == (0, "")


def test_range_of_pythons_is_that_of_the_package():
    makefile = (ROOT / "Makefile").read_text()
    (text,) = re.findall(
        r"not \((\d+), (\d+)\) <= .* < \((\d+), (\d+)\)\)$", makefile, re.MULTILINE
    )
    first, end = tuple(map(int, text[:2])), tuple(map(int, text[2:]))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    supported = SpecifierSet(project["requires-python"])
    for minor in range(20):
        assert (f"3.{minor}" in supported) == (first <= (3, minor) < end)
    assert f"not Python {first[0]}.{first[1]} to {end[0]}.{end[1] - 1}:" in makefile


@pytest.mark.parametrize("target", ["setup", "install", "demo"])
@pytest.mark.parametrize("failing", ["OFFLINE", "NO_WHEELS"])
def test_failed_download_says_what_to_do(checkout, target, failing):
    status, error, _ = checkout.make(target, **{failing: "1"})
    assert (status, error) == (2, STOPPED.format(target))
    assert not checkout.is_current()
    assert checkout.make("setup")[:2] == (0, "")
    assert checkout.is_current()


def test_killed_installation_is_completed_by_the_next_one(checkout):
    assert checkout.make("setup", KILLED="1")[0] != 0
    # all programs are there, and newer than what they are made from
    assert (checkout.folder / ".venv/bin/florin").exists()
    assert not checkout.is_current()
    status, error, calls = checkout.make("setup")
    assert (status, error) == (0, "")
    (sync,) = [call for call in calls if call.startswith("uv sync")]
    assert "--reinstall" in sync
    assert checkout.is_current()
    # what is complete is not installed again
    (checkout.folder / "uv.lock").write_text("changed")
    os.utime(checkout.folder / "uv.lock", (4e9, 4e9))
    (sync,) = [call for call in checkout.make("setup")[2] if call.startswith("uv sync")]
    assert "--reinstall" not in sync


def test_environment_whose_making_was_interrupted_is_made_again(checkout):
    (checkout.folder / ".venv/bin").mkdir(parents=True)
    (checkout.folder / ".venv/bin/python").symlink_to("/nonexistent")
    _, error, calls = checkout.make("setup")
    assert error == ""
    assert sum(call.startswith("python3.11 -m venv --clear") for call in calls) == 1
    assert checkout.is_current()
    # another environment without pip, such as uv's, gets pip and keeps its packages
    (checkout.folder / ".venv/bin/uv").unlink()
    assert not [call for call in checkout.make("setup")[2] if "-m venv" in call]


@pytest.mark.slow
def test_setup_without_a_network_ends_with_what_to_do(tmp_path):
    checkout = Checkout(tmp_path)
    nowhere = "http://127.0.0.1:9"
    status, error, _ = checkout.make(
        *("setup", f"PYTHON={sys.executable}"),
        **dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"), nowhere),
        PIP_CONFIG_FILE=os.devnull,
        PIP_RETRIES="0",
    )
    assert status == 2
    assert "No matching distribution found for uv" in error
    assert error.splitlines()[-1] == STOPPED.format("setup")
