"""Locked Python packages that the development extras lack: installed into `build` once."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

INSTALL_S = 300


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
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["--no-deps", "--target", str(home), "--require-hashes", "-r", str(lock)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=INSTALL_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"pip did not install it in {INSTALL_S} s"
        if done.returncode != 0:
            return f"pip could not install it: {done.stderr.strip()[-500:]}"
        shutil.copy(lock, installed_lock)
    return None
