"""Libraries that wallets are made of, in Node: installed from npm when they are first needed.

Their versions are pinned by the lock file in javascript_npm. Without Node tests that need them are
skipped, and say so; in CI (`CI=true`) they fail instead.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import npm

_WANTED = Path(__file__).with_name("javascript_npm")
_HOME = npm.BUILD / "javascript"


def run(script: str, given: Any) -> Any:
    """What a module prints as JSON that is given JSON on its standard input."""
    if (fault := npm.install(_WANTED, _HOME)) is not None:
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing(f"NOT TESTED with JavaScript: {fault}")
    done = subprocess.run(
        ["node", "--input-type=module", "--eval", script],
        cwd=_HOME,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
