"""The TypeScript client, built from its sources in a copy of its folder.

Its tools come from npm, at locked versions. Without Node, tests that need them are skipped with a
reason; in CI (`CI=true`) they fail instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from florin_server.web.openapi import DOCUMENT_PATH

from tests.support import npm

ROOT = npm.BUILD.parent
SOURCES = ROOT / "client" / "typescript"
_HOME = npm.BUILD / "typescript-client"
_COPIED = ("src", "test", "tsconfig.json", "package.json", "README.md", "LICENSE")
_RUN_S = 240


def skip_or_fail(why: str) -> None:
    """Skip a test that cannot run here, or fail it in CI."""
    end = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    end(f"NOT TESTED with Node: {why}")


def build_client(folder: Path) -> Path:
    """Build the client in a copy below a folder; return the folder of the package."""
    if (fault := npm.install(SOURCES, _HOME)) is not None:
        skip_or_fail(fault)
    package = folder / SOURCES.relative_to(ROOT)
    package.mkdir(parents=True)
    for name in _COPIED:
        source = SOURCES / name
        if source.is_dir():
            shutil.copytree(source, package / name, ignore=shutil.ignore_patterns("api.ts"))
        else:
            shutil.copy(source, package / name)
    (package / "node_modules").symlink_to(_HOME / "node_modules")
    # where the script of the package looks for it
    document = folder / DOCUMENT_PATH.relative_to(ROOT)
    document.parent.mkdir(parents=True)
    shutil.copy(DOCUMENT_PATH, document)
    run_node(package, "npm", "run", "build")
    return package


def run_node(folder: Path, *command: str, env: Mapping[str, str] | None = None) -> str:
    """Run a program of Node's in a folder; return its output, or fail with it."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=_RUN_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
