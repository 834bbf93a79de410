"""Run `python -m tests.scratch`: print the folder for files of tests.

It is in memory if there is room: a store waits for the disk on every commit, which would take a
third of the tests' time. A TMPDIR that is set stays as it is.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import psutil

MEMORY = Path("/dev/shm")
# twice what a whole run needs at a time
ROOM_BYTES = 4 * 1024**3


def folder(memory: Path = MEMORY) -> Path:
    """Return a folder in memory if tests can use one, or else the usual temporary folder."""
    usual = Path(tempfile.gettempdir())
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK | os.X_OK):
        return usual
    statvfs_result = os.statvfs(memory)
    room = min(
        statvfs_result.f_bavail * statvfs_result.f_frsize, psutil.virtual_memory().available // 2
    )
    # tests run programs from clones that they make
    return memory if room >= ROOM_BYTES and not statvfs_result.f_flag & os.ST_NOEXEC else usual


if __name__ == "__main__":
    print(folder())
