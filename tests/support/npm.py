"""Programs for tests that npm provides: installed into `build` once, at locked versions."""

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


def get_foundry_package(tool: str) -> str:
    """Return the package with one of Foundry's programs for this machine."""
    system, cpu = platform.system().lower(), platform.machine()
    return f"@foundry-rs/{tool}-{system}-{_CPUS.get(cpu, cpu)}"


def has_package(path: Path, package: str) -> bool:
    """Return True if the manifests in a folder name a package."""
    lock = json.loads((path / _MANIFESTS[1]).read_text())
    return f"node_modules/{package}" in lock["packages"]


def install(path: Path, home: Path) -> str | None:
    """Install a folder's manifests below `home` unless installed; return why it failed, if so."""
    manifests = [(path / name).read_bytes() for name in _MANIFESTS]
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_name(f"{home.name}.lock").open("w") as lock:
        # processes that start together install it once
        fcntl.flock(lock, fcntl.LOCK_EX)
        paths = [home / name for name in _MANIFESTS]
        if (
            all(each_path.exists() for each_path in paths)
            and [each_path.read_bytes() for each_path in paths] == manifests
        ):
            return None
        return _install(path, home)


def _install(path: Path, home: Path) -> str | None:
    """Install all of it into a folder, or nothing; return why it failed, if so."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return "there is no Node here"
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=f"{home.name}-") as folder:
        for name in _MANIFESTS:
            shutil.copy(path / name, folder)
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
