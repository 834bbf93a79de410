"""A run of pytest that a test makes: plugins are given tests, and tell what became of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run(folder: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs one file of tests; of plugins only those that the options name are there."""
    (folder / "test_it.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *options, "--rootdir", str(folder), str(folder)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
