"""Locked Python packages that the development extras lack: installed into `build` once.

uv installs them: it takes a tenth of the processor time of pip, which also compiles what no test
imports.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

INSTALL_S = 600
_UV = (sys.executable, "-m", "uv")
# it trusts what the system trusts, as pip does
_ENVIRONMENT = {"UV_SYSTEM_CERTS": "true", "UV_LINK_MODE": "copy", "UV_PYTHON_DOWNLOADS": "never"}


def install(lock: Path, home: Path) -> str | None:
    """Install the packages of a lock file unless installed; return why it failed, if so."""
    installed_lock = home / lock.name
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_name(f"{home.name}.lock").open("w") as guard:
        # processes that start together install it once
        fcntl.flock(guard, fcntl.LOCK_EX)
        if installed_lock.exists() and installed_lock.read_bytes() == lock.read_bytes():
            return None
        shutil.rmtree(home, ignore_errors=True)
        locked = ("--no-deps", "--require-hashes", "-r", str(lock))
        fault = install_packages(sys.executable, "--target", str(home), *locked)
        if fault is None:
            shutil.copy(lock, installed_lock)
    return fault


def install_environment(lock: Path, home: Path) -> str | None:
    """Create an environment with the packages of a lock file; return why it failed, if so."""
    command = ("venv", "--quiet", "--clear", "--python", sys.executable, str(home))
    return _run_uv(*command) or install_packages(
        str(home / "bin" / "python"), "--require-hashes", "-r", str(lock)
    )


def install_packages(python: str, *packages: str) -> str | None:
    """Install packages for an interpreter; return why it failed, if so."""
    return _run_uv("pip", "install", "--quiet", "--python", python, *packages)


def _run_uv(*command: str) -> str | None:
    """Run uv; return None, or why it failed."""
    try:
        done = subprocess.run(
            [*_UV, *command],
            env={**os.environ, **_ENVIRONMENT},
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"uv did not install it in {INSTALL_S} s"
    if done.returncode != 0:
        return f"uv could not install it: {done.stderr.strip()[-500:]}"
    return None
