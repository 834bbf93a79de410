"""Programs for tests that npm brings: installed into `build` once, at locked versions."""

from __future__ import annotations

import fcntl
import json
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

BUILD = Path(__file__).parents[2] / "build"
INSTALL_S = 180  # some 50 MB over a slow line
_MANIFESTS = ("package.json", "package-lock.json")
_CPUS = {"x86_64": "amd64", "aarch64": "arm64"}


def foundry(tool: str) -> str:
    """The package with one of Foundry's programs for this machine."""
    system, cpu = platform.system().lower(), platform.machine()
    return f"@foundry-rs/{tool}-{system}-{_CPUS.get(cpu, cpu)}"


def has(wanted: Path, package: str) -> bool:
    """True if the manifests in a folder name a package."""
    lock = json.loads((wanted / _MANIFESTS[1]).read_text())
    return f"node_modules/{package}" in lock["packages"]


def install(wanted: Path, home: Path) -> str | None:
    """Puts what the manifests in a folder name below `home`, unless it is there; why not."""
    manifests = [(wanted / name).read_bytes() for name in _MANIFESTS]
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_name(f"{home.name}.lock").open("w") as lock:
        # processes that start together install it once
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = [home / name for name in _MANIFESTS]
        if all(one.exists() for one in kept) and [one.read_bytes() for one in kept] == manifests:
            return None
        return _install(wanted, home)


def _install(wanted: Path, home: Path) -> str | None:
    """Puts all of it into a folder, or nothing; why not."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return "there is no Node here"
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=f"{home.name}-") as folder:
        for name in _MANIFESTS:
            shutil.copy(wanted / name, folder)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"npm did not install it in {INSTALL_S} s"
        if done.returncode != 0:
            return f"npm could not install it: {done.stderr.strip()[-500:]}"
        shutil.rmtree(home, ignore_errors=True)
        Path(folder).rename(home)
        Path(folder).mkdir()  # for its end
    return None
