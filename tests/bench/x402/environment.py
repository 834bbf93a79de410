"""Create the facilitator's environment once below `build`, at locked versions."""

from __future__ import annotations

import fcntl
import shutil
from functools import cache
from pathlib import Path

from tests.support import pip
from tests.support.npm import BUILD

_LOCK = Path(__file__).with_name("requirements.lock")
_HOME = BUILD / "x402"


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
        if fault := pip.install_environment(_LOCK, _HOME):
            return f"the x402 facilitator cannot be installed: {fault}"
        shutil.copy(_LOCK, path)
    return program
