"""Create the facilitator's environment once below `build`, at locked versions."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.support.npm import BUILD

_LOCK = Path(__file__).with_name("requirements.lock")
_HOME = BUILD / "x402"
INSTALL_S = 300


@cache
def python() -> Path | str:
    """Return its interpreter, or why it is missing."""
    BUILD.mkdir(exist_ok=True)
    path, program = _HOME / _LOCK.name, _HOME / "bin" / "python"
    with (BUILD / "x402.lock").open("w") as guard:
        # processes that start together install it once
        fcntl.flock(guard, fcntl.LOCK_EX)
        if path.exists() and path.read_bytes() == _LOCK.read_bytes():
            return program
        shutil.rmtree(_HOME, ignore_errors=True)
        quiet = ("--quiet", "--disable-pip-version-check", "--require-hashes")
        for command in (
            (sys.executable, "-m", "venv", str(_HOME)),
            (str(program), "-m", "pip", "install", *quiet, "-r", str(_LOCK)),
        ):
            if fault := _run(*command):
                return f"the x402 facilitator cannot be installed: {fault}"
        shutil.copy(_LOCK, path)
    return program


def _run(*command: str) -> str | None:
    """Run a command; return None, or why it failed."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {INSTALL_S} s"
    return None if done.returncode == 0 else done.stderr.strip()[-400:]
