"""The facilitator's environment: made once below `build`, at locked versions."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.npm import BUILD

_LOCK = Path(__file__).with_name("requirements.lock")
_HOME = BUILD / "x402"
INSTALL_S = 300


def python() -> Path:
    """Its interpreter; RuntimeError tells why there is none."""
    BUILD.mkdir(exist_ok=True)
    kept, program = _HOME / _LOCK.name, _HOME / "bin" / "python"
    with (BUILD / "x402.lock").open("w") as guard:
        # processes that start together install it once
        fcntl.flock(guard, fcntl.LOCK_EX)
        if kept.exists() and kept.read_bytes() == _LOCK.read_bytes():
            return program
        shutil.rmtree(_HOME, ignore_errors=True)
        _run(sys.executable, "-m", "venv", str(_HOME))
        quiet = ("--quiet", "--disable-pip-version-check", "--require-hashes")
        _run(str(program), "-m", "pip", "install", *quiet, "-r", str(_LOCK))
        shutil.copy(_LOCK, kept)
    return program


def _run(*command: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"the facilitator was not installed in {INSTALL_S} s") from error
    if done.returncode != 0:
        raise RuntimeError(f"the facilitator cannot be installed: {done.stderr.strip()[-400:]}")
