"""Debian's packages that tests need: root gets them installed, once for all processes of a run."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess

from tests.support import npm

_INSTALL_S = 240


def find_program(name: str) -> str | None:
    """Return the path of a program, which root gets installed by the package of that name."""
    if shutil.which(name) is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        npm.BUILD.mkdir(parents=True, exist_ok=True)
        with (npm.BUILD / f"{name}.lock").open("w") as lock:
            # processes that start together install it once
            fcntl.flock(lock, fcntl.LOCK_EX)
            if shutil.which(name) is None:
                _install_package(name)
    return shutil.which(name)


def _install_package(name: str) -> None:
    for step in (["update"], ["install", "--yes", "--no-install-recommends", name]):
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(
            ["apt-get", *step], env=env, capture_output=True, timeout=_INSTALL_S, check=False
        )
