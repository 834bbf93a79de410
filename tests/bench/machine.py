"""Describe the machine of a run: figures of two machines are not comparable."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tests.support.postgres import get_program, is_available

ROOT = Path(__file__).parents[2]


def facts() -> dict[str, str]:
    """Return the machine, versions, commit, and the load when the run started."""
    load = ", ".join(f"{item:.2f}" for item in os.getloadavg())
    return {
        "started": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "processor": _line("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": _line("/proc/meminfo", "MemTotal"),
        "kernel": f"{platform.system()} {platform.release()}",
        "load before": f"{load} (1, 5 and 15 minutes)",
        "Python": platform.python_version(),
        "grpcio": version("grpcio"),
        "SQLite": sqlite3.sqlite_version,
        "PostgreSQL": _postgres(),
    }


def _line(file: str, name: str) -> str:
    """Return the value of a name in a kernel file, or an empty text."""
    path = Path(file)
    for line in path.read_text().splitlines() if path.exists() else ():
        head, _, value = line.partition(":")
        if head.strip() == name:
            return value.strip()
    return ""


def _commit() -> str:
    """Return the commit, and whether files differ from it."""
    try:
        completed_process = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=ROOT, capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "not a checkout"
    return completed_process.stdout.strip()


def _postgres() -> str:
    """Return the version of the subjects' database server, or "none" without its package."""
    if not is_available():
        return "none"
    completed_process = subprocess.run(
        [str(get_program("postgres")), "--version"],
        capture_output=True, text=True, timeout=10, check=True,
    )  # fmt: skip
    return completed_process.stdout.split()[-1]
