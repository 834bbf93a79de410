"""What a run was measured on: figures of two machines are not compared."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tests.support.postgres import is_there, program

ROOT = Path(__file__).parents[2]


def facts() -> dict[str, str]:
    """Machine, versions, commit, and how busy it was when the run began."""
    load = ", ".join(f"{one:.2f}" for one in os.getloadavg())
    return {
        "begun": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
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
    """What a file of the kernel says of a name; nothing where it does not."""
    path = Path(file)
    for line in path.read_text().splitlines() if path.exists() else ():
        head, _, value = line.partition(":")
        if head.strip() == name:
            return value.strip()
    return ""


def _commit() -> str:
    """The commit, and whether files differ from it."""
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=ROOT, capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "not a checkout"
    return told.stdout.strip()


def _postgres() -> str:
    """The version of the server that subjects begin; none where its package is missing."""
    if not is_there():
        return "none"
    told = subprocess.run(
        [str(program("postgres")), "--version"],
        capture_output=True, text=True, timeout=10, check=True,
    )  # fmt: skip
    return told.stdout.split()[-1]
