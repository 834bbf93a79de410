"""nginx, PgBouncer, strace from Debian, Envoy, schemas of Kubernetes from PyPI, below `build`.

The system is not changed. Where a program is not available its tests are skipped with a reason; in
CI (`CI=true`) they fail instead.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.support import pip
from tests.support.npm import BUILD

HERE = Path(__file__).parent
HOME = BUILD / "deploy"
INSTALL_S = 300


def needed(result: Path | str) -> Path:
    """Return an available program; otherwise skip the test, or fail it in CI."""
    if isinstance(result, str):
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing(f"NOT TESTED: {result}")
    return result


def of_system(program: str) -> Path | str:
    """Return a program of the machine, or the reason why it is missing."""
    result = shutil.which(program)
    return f"there is no {program}" if result is None else Path(result)


@cache
def nginx() -> Path | str:
    """Return the program, or the reason why it is missing."""
    return _of_debian("nginx", "usr/sbin/nginx", ("nginx",))


@cache
def pgbouncer() -> Path | str:
    """Return the program, or the reason why it is missing.

    Its libraries are in `libraries(pgbouncer())`.
    """
    expected = ("pgbouncer", "libevent-2.1-7", "libc-ares2")
    return _of_debian("pgbouncer", "usr/sbin/pgbouncer", expected)


@cache
def strace() -> Path | str:
    """Return the program, or the reason why it is missing.

    Its library is in `libraries(strace())`.
    """
    return _of_debian("strace", "usr/bin/strace", ("strace", "libunwind8"))


def libraries(program: Path) -> str:
    """Return the folder of an unpacked program's libraries; nothing for one of the system."""
    results = [str(path) for path in program.parents[1].glob("lib/*-linux-gnu")]
    return "" if program.parents[1] == Path("/usr") else ":".join(results)


def _of_debian(name: str, path: str, expected: Sequence[str]) -> Path | str:
    """Return a program of the system, or from Debian's packages."""
    if (own := shutil.which(name)) is not None:
        return Path(own)
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return f"there is no {name}, and no apt-get to get it with"
    program = HOME / name / path
    with _guarded(name):
        if program.exists():
            return program
        folder = HOME / f"{name}-packages"
        folder.mkdir(exist_ok=True)
        fetch = ("apt-get", "download", *expected)
        fault = _run(*fetch, cwd=folder)
        if fault is not None and os.geteuid() == 0:
            # a new machine has no list of packages
            _run("apt-get", "update", cwd=folder)
            fault = _run(*fetch, cwd=folder)
        if fault is not None:
            return f"apt-get does not bring {name}: {fault}"
        for package in folder.glob("*.deb"):
            if fault := _run("dpkg-deb", "-x", str(package), str(HOME / name), cwd=folder):
                return f"{package.name} cannot be unpacked: {fault}"
    return program


@cache
def packages() -> Path | str:
    """Return the folder with the locked requirements, or the reason why it is missing."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return "there is no Envoy for this machine"
    folder = HOME / "python"
    if (fault := pip.install(HERE / "requirements.lock", folder)) is not None:
        return f"Envoy and the schemas are missing: {fault}"
    return folder


@cache
def envoy() -> Path | str:
    """Return the program, or the reason why it is missing."""
    folder = packages()
    if isinstance(folder, str):
        return folder
    program = folder / "envoy" / "_bin" / "envoy"
    program.chmod(0o755)
    return program


@contextmanager
def _guarded(what: str) -> Iterator[None]:
    """Lock, so that processes that start together install once."""
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / f"{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(*command: str, cwd: Path) -> str | None:
    """Run a command; return None, or why it failed."""
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]} took longer than {INSTALL_S} s"
    return None if done.returncode == 0 else done.stderr.strip()[-500:]
