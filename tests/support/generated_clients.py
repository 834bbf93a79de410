"""Clients that third-party generators make from the OpenAPI document, at pinned versions.

Without Node or a package registry, tests that need them are skipped with a reason; in CI
(`CI=true`) they fail instead.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from florin_server.web.openapi import DOCUMENT_PATH

from tests.support import npm, pip
from tests.support.typescript_client import skip_or_fail

DOCUMENT_FILE = DOCUMENT_PATH
_NPM_FOLDER = Path(__file__).with_name("generators_npm")
_NPM_HOME = npm.BUILD / "generators"
_LOCK = Path(__file__).with_name("generators_python") / "requirements.lock"
_PYTHON_HOME = npm.BUILD / "generators-python"
_RUN_S = 240
# modules that Node loads name their files in full
_HEY_API_CONFIG = """export default {
  input: "openapi.json",
  output: { path: "hey", module: { extension: ".js" } },
};
"""
_COMPILER_OPTIONS = {
    "strict": True,
    "target": "es2022",
    "module": "nodenext",
    "moduleResolution": "nodenext",
    "lib": ["es2022", "dom", "dom.iterable"],
    "types": [],
    "outDir": "dist",
}


def prepare_node(folder: Path) -> None:
    """Make the generators and a strict compiler available to programs in a folder."""
    if (fault := npm.install(_NPM_FOLDER, _NPM_HOME)) is not None:
        skip_or_fail(fault)
    (folder / "node_modules").symlink_to(_NPM_HOME / "node_modules")
    (folder / "openapi-ts.config.mjs").write_text(_HEY_API_CONFIG)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": _COMPILER_OPTIONS}))


def prepare_python() -> dict[str, str]:
    """Return the variables with which Python finds the generator and what its clients need."""
    if (fault := pip.install(_LOCK, _PYTHON_HOME)) is not None:
        skip_or_fail(fault)
    path = os.pathsep.join((str(_PYTHON_HOME / "bin"), os.environ["PATH"]))
    return {"PYTHONPATH": str(_PYTHON_HOME), "PATH": path}


def run_tool(folder: Path, *command: str, env: Mapping[str, str] | None = None) -> str:
    """Run a program in a folder; return what it prints on both channels, or fail with it."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def run_python(folder: Path, *arguments: str, env: Mapping[str, str]) -> str:
    """Run this Python in a folder; return what it prints."""
    return run_tool(folder, sys.executable, *arguments, env=env)
