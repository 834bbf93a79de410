"""A run of pytest inside a test: plugins are given tests, and report their results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_pytest(folder: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run one file of tests, with only the plugins that the options name."""
    (folder / "test_it.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *options, "--rootdir", str(folder), str(folder)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
