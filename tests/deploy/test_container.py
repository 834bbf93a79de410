"""The container file's steps, run verbatim in another folder, and their results.

No image is built: a machine may lack the programs for it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import urllib.request
from pathlib import Path

import pytest

from tests.deploy import tools
from tests.deploy.build_context import list_context
from tests.deploy.front import DEPLOY

ROOT = DEPLOY.parent
INSTALL_S = 600
START_S = 60

pytestmark = pytest.mark.slow


def stages() -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage, without comments."""
    text = (DEPLOY / "container" / "Containerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    results: list[list[tuple[str, str]]] = []
    for line in lines:
        name, _, rest = line.partition(" ")
        if name == "FROM":
            results.append([])
        else:
            results[-1].append((name, rest))
    return results


def copied(source: str, target: Path) -> None:
    """Copy as COPY does: a file, or all that is not ignored."""
    if source != ".":
        shutil.copy(ROOT / source, target)
        return
    there = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(there, cwd=ROOT, capture_output=True, text=True, check=True)
    context = list_context(ROOT)
    for name in listed.stdout.splitlines():
        if (ROOT / name).exists() and name in context:
            file = target / name
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, file)


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """Return the folder that the image has as /opt/florin."""
    for program in ("git", "python3.11"):
        tools.needed(tools.of_system(program))
    folder = tmp_path_factory.mktemp("opt") / "florin"
    first, _ = stages()
    for name, text in first:
        if name == "WORKDIR":
            assert text == "/opt/florin"
            folder.mkdir()
        elif name == "COPY":
            source, target = text.split()
            copied(source, folder / target)
        else:
            assert name == "RUN"
            done = subprocess.run(
                text,
                shell=True,
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=INSTALL_S,
                check=False,
            )
            assert done.returncode == 0, f"{text}: {done.stderr[-1000:]}"
    return folder


@pytest.mark.parametrize(
    "module", ["money.archive.service.parquet", "features.event_sink.service.nats_credentials"]
)
def test_installed_environment_has_the_extras_of_production(installed, module):
    """These modules import the packages of an extra."""
    python = installed / ".venv" / "bin" / "python"
    done = subprocess.run(
        [python, "-P", "-c", f"import florin_server.{module}"],
        cwd=installed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_installed_environment_serves(installed, tmp_path):
    last = dict(stages()[1])
    assert [path.name for path in installed.iterdir()] == [".venv"]
    variables = dict(each_text.split("=", 1) for each_text in shlex.split(last["ENV"]))
    variables["FLORIN_HOME"] = str(tmp_path / "home")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FLORIN_")}
    ports = {"FLORIN_HTTP_PORT": "0", "FLORIN_GRPC_PORT": "0"}
    program = str(installed / ".venv" / "bin" / "florin")
    process = subprocess.Popen(
        [program, "serve"],
        cwd=tmp_path,
        env={**clean, **variables, **ports},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(START_S, process.kill)
    watchdog.start()
    try:
        text = ""
        assert process.stdout is not None
        for line in process.stdout:
            text += line
            if "Ctrl-C ends it." in line:
                break
        (url,) = re.findall(r"^REST +(http://127\.0\.0\.1:\d+)$", text, re.MULTILINE)
        for path in ("/healthz", "/readyz", "/versions", "/docs"):
            with urllib.request.urlopen(url + path, timeout=10) as answer:
                assert answer.status == 200, path
        # no test chain runs, and nothing of the checkout is used
        assert "Test chain" not in text
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_S) == 0
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
